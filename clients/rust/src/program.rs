//! Finds the program to start.

use std::fs;
use std::io::{Error, Read, Result};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, SystemTime};

use sha2::{Digest, Sha256};

use crate::VERSION;

/// The age at which a folder of the cache is removed.
const UNUSED_FOR: Duration = Duration::from_secs(30 * 24 * 3600);
static UNPACKING: Mutex<()> = Mutex::new(());
const CHECKSUMS: &str = include_str!("../SHA256SUMS");

/// Returns the SHA-256 that an archive of the release has, if this crate knows it.
fn checksum(archive: &str) -> Option<&'static str> {
    CHECKSUMS.lines().filter_map(|line| line.split_once("  ")).find(|(_, name)| *name == archive).map(|(sum, _)| sum)
}

/// Returns system, machine and C library as the release's archives have them in their names: `linux-x64-musl`.
fn platform() -> String {
    let system = match std::env::consts::OS {
        "macos" => "darwin",
        "windows" => "win32",
        other => other,
    };
    let machine = match std::env::consts::ARCH {
        "x86_64" => "x64",
        "aarch64" => "arm64",
        other => other,
    };
    let library = if system == "linux" && is_musl(Path::new("/bin/sh")) { "-musl" } else { "" };
    format!("{system}-{machine}{library}")
}

/// Returns whether a program asks for the dynamic linker of musl. Its path is at the start of the program.
fn is_musl(program: &Path) -> bool {
    let mut start = Vec::new();
    let read = fs::File::open(program).and_then(|file| file.take(4096).read_to_end(&mut start));
    read.is_ok() && start.windows(9).any(|bytes| bytes == b"/ld-musl-")
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// Returns the program to start: MINIBROKER_COMMAND, MINIBROKER_BINARY, the cache, the PATH. It fetches the release into
/// the cache only if MINIBROKER_RELEASES has an address.
pub(crate) fn find_program() -> Result<String> {
    if let Some(command) = variable("MINIBROKER_COMMAND") {
        return Ok(command);
    }
    match variable("MINIBROKER_BINARY") {
        Some(binary) if binary.ends_with(".tar.gz") => return unpacked_file(Path::new(&binary)),
        Some(binary) => return Ok(binary),
        None => {}
    }
    let archive = format!("minibroker-{VERSION}-{}.tar.gz", platform());
    let sum = checksum(&archive);
    if let Some(program) = sum.and_then(cached) {
        return Ok(program);
    }
    match (variable("MINIBROKER_RELEASES"), sum) {
        (None, _) => Ok("minibroker".into()),
        (Some(_), None) => Err(Error::other(format!(
            "this crate has no checksum of {archive}, so nothing is fetched: there is no program for this platform, or \
             the crate is of no release"
        ))),
        (Some(address), Some(sum)) => fetched(&format!("{}/{archive}", address.trim_end_matches('/')), sum),
    }
}

/// Returns a sentence for a program that has ended too early.
pub(crate) fn damage(program: &str) -> String {
    let folder = Path::new(program).parent().filter(|folder| folder.starts_with(cache_folder()));
    folder.map(|folder| format!("; if the cache is damaged, remove {}", folder.display())).unwrap_or_default()
}

/// Returns a sentence for a program that does not start.
pub(crate) fn hint(program: &str) -> String {
    if program != "minibroker" {
        return format!("MINIBROKER_COMMAND and MINIBROKER_BINARY name a program, or nothing{}", damage(program));
    }
    format!(
        "MINIBROKER_BINARY names the program or its archive for {}, and MINIBROKER_RELEASES the address to fetch it from",
        platform()
    )
}

fn cache_folder() -> PathBuf {
    let home = || PathBuf::from(variable("HOME").unwrap_or_default());
    let folder = match (variable("XDG_CACHE_HOME"), std::env::consts::OS) {
        (Some(folder), _) => folder.into(),
        (None, "macos") => home().join("Library/Caches"),
        (None, "windows") => variable("LOCALAPPDATA").unwrap_or_default().into(),
        (None, _) => home().join(".cache"),
    };
    folder.join("minibroker").join("binary")
}

/// Returns the folder of the cache for the archive with this checksum.
fn folder_of(sum: &str) -> PathBuf {
    cache_folder().join(&sum[..16])
}

/// Returns the program in the cache that was unpacked from the archive with this checksum.
fn cached(sum: &str) -> Option<String> {
    let program = folder_of(sum).join("minibroker").join(format!("minibroker{}", std::env::consts::EXE_SUFFIX));
    // Without a home the folder is relative, and the working directory may hold anything.
    if !program.is_absolute() || !program.exists() {
        return None;
    }
    // It is in use: see remove_unused.
    let _ = fs::File::open(folder_of(sum)).and_then(|folder| folder.set_modified(SystemTime::now()));
    program.into_os_string().into_string().ok()
}

/// Returns the program of a release's archive, which curl fetches, and which is unpacked into the cache.
fn fetched(url: &str, sum: &str) -> Result<String> {
    let fail = |reason: String| Err(Error::other(format!("{url} cannot be fetched: {reason}")));
    if !url.starts_with("https://") {
        return fail("its address does not begin with https://".into());
    }
    let options = ["--fail", "--silent", "--show-error", "--location", "--proto", "=https", "--proto-redir", "=https"];
    match Command::new("curl").args(options).arg(url).output() {
        Ok(curl) if curl.status.success() => unpacked(url, &curl.stdout, Some(sum)),
        Ok(curl) => fail(String::from_utf8_lossy(&curl.stderr).trim().into()),
        Err(error) => fail(format!("curl does not start: {error}")),
    }
}

/// Returns the program of an archive, which is unpacked into the cache once.
fn unpacked_file(archive: &Path) -> Result<String> {
    let expected = archive.file_name().and_then(|name| checksum(name.to_str()?));
    if let Some(program) = expected.and_then(cached) {
        return Ok(program);
    }
    let content = fs::read(archive)
        .map_err(|error| Error::other(format!("MINIBROKER_BINARY: {}: {error}", archive.display())))?;
    unpacked(&archive.to_string_lossy(), &content, expected)
}

/// Returns the program of an archive's content, which has to have the expected checksum.
fn unpacked(name: &str, content: &[u8], expected: Option<&str>) -> Result<String> {
    let sum: String = Sha256::digest(content).iter().map(|byte| format!("{byte:02x}")).collect();
    if let Some(expected) = expected.filter(|expected| *expected != sum) {
        return Err(Error::other(format!(
            "{name} is damaged: its SHA-256 is {sum}, and that of the release {expected}"
        )));
    }
    let _one_thread = UNPACKING.lock(); // Tests start brokers in several threads, whose scratch folder is one.
    if let Some(program) = cached(&sum) {
        return Ok(program);
    }
    unpack(content, &sum).map_err(|error| {
        Error::other(format!(
            "{name} cannot be unpacked into the cache: {error}; XDG_CACHE_HOME names another folder than {}",
            cache_folder().display()
        ))
    })
}

/// Fills a folder beside the one of the cache, which then takes its name: several processes can do it at the same time.
fn unpack(content: &[u8], sum: &str) -> Result<String> {
    let (folder, scratch) = (folder_of(sum), cache_folder().join(format!("{}.{}", &sum[..16], std::process::id())));
    fs::create_dir_all(&scratch)?;
    let moved = extract(content, &scratch).and_then(|()| match fs::rename(&scratch, &folder) {
        Err(error) if !folder.exists() => Err(error),
        _ => Ok(()), // It is there, or another process was first.
    });
    let _ = fs::remove_dir_all(&scratch);
    moved?;
    remove_unused()?;
    cached(sum).ok_or_else(|| Error::other(format!("remove {}, which is damaged", folder.display())))
}

fn extract(content: &[u8], folder: &Path) -> Result<()> {
    let archive = folder.join("archive");
    fs::write(&archive, content)?;
    let tar = Command::new("tar").arg("-xzf").arg(&archive).arg("-C").arg(folder).stdin(Stdio::null()).output()?;
    if !tar.status.success() {
        return Err(Error::other(String::from_utf8_lossy(&tar.stderr).trim()));
    }
    fs::remove_file(archive)
}

/// Removes folders of the cache that nothing has been started from for a month.
fn remove_unused() -> Result<()> {
    for entry in fs::read_dir(cache_folder())?.flatten() {
        let age = entry.metadata().and_then(|metadata| metadata.modified()).map(|time| time.elapsed());
        if matches!(age, Ok(Ok(age)) if age > UNUSED_FOR) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
    Ok(())
}
