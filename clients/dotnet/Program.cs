using System.Formats.Tar;
using System.IO.Compression;
using System.Runtime.InteropServices;
using System.Security.Cryptography;
using System.Text;

namespace Minibroker;

/// <summary>Finds the program to start.</summary>
internal static class Program
{
    /// <summary>The version of this package, and of the broker that it was made for.</summary>
    internal static readonly string Version = typeof(Program).Assembly.GetName().Version!.ToString(3);

    /// <summary>The age at which a folder of the cache is removed.</summary>
    private static readonly TimeSpan UnusedFor = TimeSpan.FromDays(30);

    /// <summary>
    /// Returns the program to start: MINIBROKER_COMMAND, MINIBROKER_BINARY, the package of the platform, the cache, the
    /// PATH.
    /// </summary>
    internal static string Find()
    {
        if (Variable("MINIBROKER_COMMAND") is string command)
        {
            return command;
        }
        if (Variable("MINIBROKER_BINARY") is string binary)
        {
            return binary.EndsWith(".tar.gz", StringComparison.Ordinal) ? Unpacked(binary) : binary;
        }
        var archive = $"minibroker-{Version}-{Platform()}.tar.gz";
        if (Bundled(archive) is string bundled)
        {
            return Unpacked(bundled);
        }
        return (Checksum(archive) is string sum ? Cached(sum) : null) ?? "minibroker";
    }

    /// <summary>Returns a sentence for a program that has ended too early.</summary>
    internal static string Damage(string program) =>
        program.StartsWith(CacheFolder(), StringComparison.Ordinal)
            ? $"; if the cache is damaged, remove {Path.GetDirectoryName(program)}"
            : "";

    /// <summary>Returns a sentence for a program that does not start.</summary>
    internal static string Hint(string program) =>
        program == "minibroker"
            ? $"no package Minibroker.Program has the program for {Platform()}; reference it, or name a program in "
                + "MINIBROKER_COMMAND or MINIBROKER_BINARY"
            : $"MINIBROKER_COMMAND and MINIBROKER_BINARY name a program, or nothing{Damage(program)}";

    private static string? Variable(string name)
    {
        var value = Environment.GetEnvironmentVariable(name);
        return string.IsNullOrEmpty(value) ? null : value;
    }

    /// <summary>Returns system, machine and C library as the release's archives have them in their names.</summary>
    private static string Platform()
    {
        var system = OperatingSystem.IsWindows() ? "win32" : OperatingSystem.IsMacOS() ? "darwin" : "linux";
        var machine = RuntimeInformation.OSArchitecture.ToString().ToLowerInvariant();
        return system + "-" + machine + (system == "linux" && IsMusl("/bin/sh") ? "-musl" : "");
    }

    /// <summary>Returns whether a program asks for the dynamic linker of musl. Its path is at the program's start.</summary>
    private static bool IsMusl(string program)
    {
        var start = new byte[4096];
        using var file = File.OpenRead(program);
        return Encoding.ASCII.GetString(start, 0, file.Read(start, 0, start.Length)).Contains("/ld-musl-");
    }

    /// <summary>Returns the SHA-256 that a release's archive has, or null if this package does not know it.</summary>
    private static string? Checksum(string archive)
    {
        using var sums = new StreamReader(typeof(Program).Assembly.GetManifestResourceStream("SHA256SUMS")!);
        var line = sums.ReadToEnd().Split('\n').FirstOrDefault(each => each.EndsWith("  " + archive, StringComparison.Ordinal));
        return line?.Split(' ')[0];
    }

    /// <summary>
    /// Returns the archive of the platform's package, or null. It lies beside the tests' assembly if they are built for
    /// one platform, and else in the folder of its own.
    /// </summary>
    private static string? Bundled(string archive)
    {
        var runtimes = Path.Combine(AppContext.BaseDirectory, "runtimes");
        var folders = Directory.Exists(runtimes) ? Directory.GetDirectories(runtimes, "native", SearchOption.AllDirectories) : Array.Empty<string>();
        return folders.Prepend(AppContext.BaseDirectory).Select(folder => Path.Combine(folder, archive)).FirstOrDefault(File.Exists);
    }

    private static string CacheFolder()
    {
        var home = Environment.GetFolderPath(Environment.SpecialFolder.UserProfile);
        var system =
            OperatingSystem.IsWindows() ? Environment.GetFolderPath(Environment.SpecialFolder.LocalApplicationData)
            : OperatingSystem.IsMacOS() ? Path.Combine(home, "Library", "Caches")
            : Path.Combine(home, ".cache");
        return Path.Combine(Variable("XDG_CACHE_HOME") ?? system, "minibroker", "binary");
    }

    private static string FolderOf(string sum) => Path.Combine(CacheFolder(), sum.Substring(0, 16));

    /// <summary>Returns the program in the cache that was unpacked from the archive with this checksum, or null.</summary>
    private static string? Cached(string sum)
    {
        var name = OperatingSystem.IsWindows() ? "minibroker.exe" : "minibroker";
        var program = Path.Combine(FolderOf(sum), "minibroker", name);
        if (!File.Exists(program))
        {
            return null;
        }
        try
        {
            Directory.SetLastWriteTimeUtc(FolderOf(sum), DateTime.UtcNow); // It is in use: see RemoveUnused.
        }
        catch (Exception error) when (error is IOException || error is UnauthorizedAccessException)
        {
            // The cache is read-only.
        }
        return program;
    }

    /// <summary>Returns the program of a release's archive, which is unpacked into the cache once.</summary>
    private static string Unpacked(string archive)
    {
        var expected = Checksum(Path.GetFileName(archive));
        if (expected != null && Cached(expected) is string known)
        {
            return known;
        }
        try
        {
            using var content = File.OpenRead(archive);
            var sum = Convert.ToHexString(SHA256.HashData(content)).ToLowerInvariant();
            if (expected != null && sum != expected)
            {
                throw new InvalidDataException($"its SHA-256 is {sum}, and that of the release {expected}");
            }
            if (Cached(sum) is string same)
            {
                return same;
            }
            content.Position = 0;
            Unpack(content, FolderOf(sum));
            RemoveUnused();
            return Cached(sum) ?? throw new InvalidDataException($"remove {FolderOf(sum)}, which is damaged");
        }
        catch (Exception error)
        {
            var hint = $"XDG_CACHE_HOME names another folder than {CacheFolder()}";
            throw new MinibrokerException($"{archive} cannot be unpacked into the cache: {error.Message}; {hint}", error);
        }
    }

    /// <summary>Fills a folder beside the target, which then takes its name: several processes can do it at the same time.</summary>
    private static void Unpack(Stream content, string target)
    {
        var scratch = Directory.CreateDirectory(target + "." + Path.GetRandomFileName()).FullName;
        try
        {
            using var packed = new GZipStream(content, CompressionMode.Decompress);
            TarFile.ExtractToDirectory(packed, scratch, false);
            Directory.Move(scratch, target);
        }
        catch (IOException) when (Directory.Exists(target))
        {
            // Another process was first.
        }
        finally
        {
            if (Directory.Exists(scratch))
            {
                Directory.Delete(scratch, true);
            }
        }
    }

    /// <summary>Removes folders of the cache that nothing has been started from for a month.</summary>
    private static void RemoveUnused()
    {
        foreach (var folder in Directory.GetDirectories(CacheFolder()))
        {
            try
            {
                if (DateTime.UtcNow - Directory.GetLastWriteTimeUtc(folder) > UnusedFor)
                {
                    Directory.Delete(folder, true);
                }
            }
            catch (Exception error) when (error is IOException or UnauthorizedAccessException)
            {
                // Another process removes it, or it belongs to another user.
            }
        }
    }
}
