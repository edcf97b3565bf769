"use strict";

const { spawnSync } = require("node:child_process");
const { createHash } = require("node:crypto");
const fs = require("node:fs");
const os = require("node:os");
const path = require("node:path");

const KEPT_MS = 30 * 24 * 3600 * 1000;
const NAME = process.platform === "win32" ? "minibroker.exe" : "minibroker";

/** Returns system, machine and C library as the packages with the program have them in their names: `linux-x64-musl`. */
function platform() {
  process.report.excludeNetwork = true; // Looking up the names of hosts can take seconds.
  const isMusl = process.platform === "linux" && !process.report.getReport().header.glibcVersionRuntime;
  return `${process.platform}-${process.arch}${isMusl ? "-musl" : ""}`;
}

/** Returns the SHA-256 that a release's archive has, or undefined if this package does not know it. */
function checksum(archive) {
  const lines = fs.readFileSync(path.join(__dirname, "SHA256SUMS"), "utf8").split("\n");
  return lines.find((line) => line.endsWith(`  ${archive}`))?.split(" ")[0];
}

function cacheFolder() {
  const { XDG_CACHE_HOME, LOCALAPPDATA } = process.env;
  const systems = { darwin: path.join(os.homedir(), "Library", "Caches"), win32: LOCALAPPDATA };
  return path.join(XDG_CACHE_HOME || systems[process.platform] || path.join(os.homedir(), ".cache"), "minibroker", "binary");
}

const folderOf = (sum) => path.join(cacheFolder(), sum.slice(0, 16));

/** Returns the program in the cache that was unpacked from the archive with this checksum, or undefined. */
function cached(sum) {
  const program = path.join(folderOf(sum), "minibroker", NAME);
  if (!fs.existsSync(program)) return undefined;
  try {
    fs.utimesSync(folderOf(sum), new Date(), new Date()); // It is in use: see clear().
  } catch {
    // The cache is read-only.
  }
  return program;
}

/** Removes folders of the cache that nothing has been started from for a month. */
function clear() {
  for (const name of fs.readdirSync(cacheFolder())) {
    const folder = path.join(cacheFolder(), name);
    try {
      if (Date.now() - fs.statSync(folder).mtimeMs > KEPT_MS) fs.rmSync(folder, { recursive: true, force: true });
    } catch {
      // Another process removes it, or it belongs to another user.
    }
  }
}

/** Returns the program of a release's archive, which is unpacked into the cache once. */
function unpacked(archive) {
  const expected = checksum(path.basename(archive));
  const known = expected && cached(expected);
  if (known) return known;
  let scratch;
  try {
    const sum = createHash("sha256").update(fs.readFileSync(archive)).digest("hex");
    if (expected && sum !== expected) throw new Error(`its SHA-256 is ${sum}, and that of the release ${expected}`);
    if (cached(sum)) return cached(sum);
    fs.mkdirSync(cacheFolder(), { recursive: true });
    scratch = fs.mkdtempSync(`${folderOf(sum)}.`);
    const tar = spawnSync("tar", ["-xzf", path.resolve(archive), "-C", scratch], { encoding: "utf8" });
    if (tar.status !== 0) throw tar.error ?? new Error(tar.stderr.trim());
    try {
      fs.renameSync(scratch, folderOf(sum));
    } catch (error) {
      if (!fs.existsSync(folderOf(sum))) throw error; // Otherwise another process was first.
    }
    if (!cached(sum)) throw new Error(`remove ${folderOf(sum)}, which is damaged`);
    clear();
    return cached(sum);
  } catch (error) {
    const hint = `XDG_CACHE_HOME names another folder than ${cacheFolder()}`;
    throw new Error(`minibroker: ${archive} cannot be unpacked into the cache: ${error.message}; ${hint}`, { cause: error });
  } finally {
    if (scratch) fs.rmSync(scratch, { recursive: true, force: true });
  }
}

/** Returns the program in the package of this platform, or undefined if that is not installed. */
function bundled() {
  try {
    const manifest = `@minibroker/${platform()}/package.json`;
    return path.join(path.dirname(require.resolve(manifest, { paths: [__dirname, process.cwd()] })), "minibroker", NAME);
  } catch {
    return undefined;
  }
}

/** Returns the program to start: MINIBROKER_COMMAND, MINIBROKER_BINARY, the package of the platform, the cache, the PATH. */
function findProgram() {
  const { MINIBROKER_COMMAND: command, MINIBROKER_BINARY: binary } = process.env;
  if (command) return command;
  if (binary) return binary.endsWith(".tar.gz") ? unpacked(binary) : binary;
  const sum = checksum(`minibroker-${require("./package.json").version}-${platform()}.tar.gz`);
  return bundled() ?? (sum && cached(sum)) ?? "minibroker";
}

/** Returns a sentence for a program that has ended too early. */
function damage(program) {
  return program.startsWith(cacheFolder()) ? `; if the cache is damaged, remove ${path.dirname(program)}` : "";
}

/** Returns a sentence for a program that does not start. */
function hint(program) {
  if (program !== "minibroker") return `MINIBROKER_COMMAND and MINIBROKER_BINARY name a program, or nothing${damage(program)}`;
  const manifest = `@minibroker/${platform()}`;
  return (
    `the package ${manifest} is not installed: npm leaves it out with --omit=optional, and on platforms that it has no ` +
    "program for; install it, or name a program in MINIBROKER_COMMAND or MINIBROKER_BINARY"
  );
}

module.exports = { damage, findProgram, hint };
