package minibroker.control;

import java.io.File;
import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.net.URL;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.time.Duration;
import java.time.Instant;
import java.util.Comparator;
import java.util.HexFormat;
import java.util.Locale;
import java.util.Map;
import java.util.stream.Stream;

/**
 * Finds the program that starts a broker: MINIBROKER_COMMAND, MINIBROKER_BINARY, the one in the class path, which is
 * unpacked once into the user's cache, or minibroker on the PATH.
 */
final class Program {
    static final String VERSION = "1.1.0";
    private static final Duration UNUSED = Duration.ofDays(30);

    private final Map<String, String> environment;
    private final Path cache;

    Program(Map<String, String> environment) {
        this.environment = environment;
        String home = System.getProperty("user.home");
        String caches = switch (system()) {
            case "darwin" -> home + "/Library/Caches";
            case "win32" -> variable("LOCALAPPDATA", home);
            default -> home + "/.cache";
        };
        cache = Path.of(variable("XDG_CACHE_HOME", caches), "minibroker", "binary");
    }

    /** Returns the program's path, or its name if it should be on the PATH. */
    String find() {
        String command = variable("MINIBROKER_COMMAND", "");
        String binary = variable("MINIBROKER_BINARY", "");
        if (!command.isEmpty() || !binary.isEmpty() && !binary.endsWith(".tar.gz")) {
            return command.isEmpty() ? binary : command;
        }
        try {
            if (!binary.isEmpty()) {
                Path archive = Path.of(binary);
                return cached(archive.toUri().toURL(), sha256(Files.readAllBytes(archive)));
            }
            String name = "minibroker-" + VERSION + "-" + platform() + ".tar.gz";
            String checksum = checksum(name);
            return checksum == null ? "minibroker" : cached(Program.class.getResource(name), checksum);
        } catch (IOException error) {
            throw new UncheckedIOException("minibroker: the program cannot be unpacked into " + cache + " (" + error
                + "); name another folder in XDG_CACHE_HOME", error);
        }
    }

    /** Returns a clause for an error of this program, which is empty unless it lies in the cache. */
    String cacheHint(String program) {
        return program.startsWith(cache.toString()) ? "; if the program is damaged, delete " + cache : "";
    }

    /** Returns system, machine and C library as in the names of the release's archives. */
    static String platform() {
        String machine = switch (System.getProperty("os.arch")) {
            case "amd64", "x86_64" -> "x64";
            case "aarch64" -> "arm64";
            default -> System.getProperty("os.arch");
        };
        String loader = "ld-musl-" + (machine.equals("x64") ? "x86_64" : "aarch64") + ".so.1";
        boolean glibc = Files.exists(Path.of("/lib64/ld-linux-x86-64.so.2")) || Files.exists(Path.of("/lib/ld-linux-aarch64.so.1"));
        return system() + "-" + machine + (!glibc && Files.exists(Path.of("/lib", loader)) ? "-musl" : "");
    }

    private static String system() {
        String name = System.getProperty("os.name").toLowerCase(Locale.ROOT);
        return name.startsWith("mac") ? "darwin" : name.startsWith("windows") ? "win32" : name;
    }

    private String variable(String name, String otherwise) {
        String value = environment.getOrDefault(name, "");
        return value.isEmpty() ? otherwise : value;
    }

    private static String checksum(String name) throws IOException {
        try (InputStream sums = Program.class.getResourceAsStream("SHA256SUMS")) {
            Stream<String> lines = sums == null ? Stream.empty() : new String(sums.readAllBytes(), StandardCharsets.UTF_8).lines();
            return lines.filter(line -> line.endsWith("  " + name)).map(line -> line.split(" ")[0]).findFirst().orElse(null);
        }
    }

    /** Returns the program in the cache, after unpacking the archive if it is not there, or "minibroker" without either. */
    private String cached(URL archive, String checksum) throws IOException {
        Path folder = cache.resolve(checksum.substring(0, 16));
        Path program = folder.resolve("minibroker").resolve(system().equals("win32") ? "minibroker.exe" : "minibroker");
        if (!Files.isExecutable(program)) {
            if (archive == null) {
                return "minibroker";
            }
            unpack(archive, checksum, folder, program);
        }
        folder.toFile().setLastModified(System.currentTimeMillis()); // In a cache that is read-only it has no effect.
        return program.toString();
    }

    private void unpack(URL archive, String checksum, Path folder, Path program) throws IOException {
        Files.createDirectories(cache);
        Path scratch = Files.createTempDirectory(cache, "new-");
        try {
            Path copy = scratch.resolve("archive");
            byte[] content;
            try (InputStream in = archive.openStream()) {
                content = in.readAllBytes();
            }
            String found = sha256(content);
            if (!found.equals(checksum)) {
                throw new IOException("the SHA-256 of " + archive + " is " + found + " and should be " + checksum);
            }
            Files.write(copy, content);
            Process tar = new ProcessBuilder("tar", "-xzf", "archive").directory(scratch.toFile()).inheritIO().start();
            if (tar.waitFor() != 0) {
                throw new IOException("tar has ended with status " + tar.exitValue());
            }
            Files.delete(copy);
            // Another process may have renamed its own before, which is as good.
            if (!scratch.toFile().renameTo(folder.toFile()) && !Files.isExecutable(program)) {
                delete(folder);
                if (!scratch.toFile().renameTo(folder.toFile()) && !Files.isExecutable(program)) {
                    throw new IOException("it cannot be renamed to " + folder);
                }
            }
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
            throw new IOException(error);
        } finally {
            delete(scratch);
        }
        try (Stream<Path> folders = Files.list(cache)) {
            long oldest = Instant.now().minus(UNUSED).toEpochMilli();
            folders.filter(old -> old.toFile().lastModified() < oldest).forEach(Program::delete);
        }
    }

    /** Deletes a folder as far as possible: another process may delete it, too. */
    private static void delete(Path folder) {
        try (Stream<Path> files = Files.walk(folder)) {
            files.sorted(Comparator.reverseOrder()).map(Path::toFile).forEach(File::delete);
        } catch (IOException | UncheckedIOException error) {
            // What is left is deleted when a program is unpacked again.
        }
    }

    private static String sha256(byte[] content) {
        try {
            return HexFormat.of().formatHex(MessageDigest.getInstance("SHA-256").digest(content));
        } catch (NoSuchAlgorithmException error) {
            throw new IllegalStateException(error);
        }
    }
}
