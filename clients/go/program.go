package minibroker

import (
	"bytes"
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

// unusedFor is the age at which a folder of the cache is removed.
const unusedFor = 30 * 24 * time.Hour

//go:embed SHA256SUMS
var checksums string

// checksum returns the SHA-256 that an archive of the release has, or "" if this module does not know it.
func checksum(archive string) string {
	for _, line := range strings.Split(checksums, "\n") {
		if sum, name, _ := strings.Cut(line, "  "); name == archive {
			return sum
		}
	}
	return ""
}

// platform returns system, machine and C library as the release's archives have them in their names: linux-x64-musl.
func platform() string {
	system, machine := runtime.GOOS, runtime.GOARCH
	if system == "windows" {
		system = "win32"
	}
	if machine == "amd64" {
		machine = "x64"
	}
	if system == "linux" && isMusl("/bin/sh") {
		machine += "-musl"
	}
	return system + "-" + machine
}

// isMusl reports whether a program asks for the dynamic linker of musl. Its path is at the start of the program.
func isMusl(program string) bool {
	file, err := os.Open(program)
	if err != nil {
		return false
	}
	defer file.Close()
	start, _ := io.ReadAll(io.LimitReader(file, 4096))
	return bytes.Contains(start, []byte("/ld-musl-"))
}

// findProgram returns the program to start: MINIBROKER_COMMAND, MINIBROKER_BINARY, the cache, the PATH. It fetches the
// release into the cache only if MINIBROKER_RELEASES has an address.
func findProgram(ctx context.Context) (string, error) {
	if command := os.Getenv("MINIBROKER_COMMAND"); command != "" {
		return command, nil
	}
	if binary := os.Getenv("MINIBROKER_BINARY"); strings.HasSuffix(binary, ".tar.gz") {
		return unpackedFile(binary)
	} else if binary != "" {
		return binary, nil
	}
	archive := fmt.Sprintf("minibroker-%s-%s.tar.gz", Version, platform())
	sum := checksum(archive)
	if sum != "" {
		if program := cached(sum); program != "" {
			return program, nil
		}
	}
	if address := os.Getenv("MINIBROKER_RELEASES"); address != "" {
		if sum == "" {
			return "", fmt.Errorf("minibroker: this module has no checksum of %s, so nothing is fetched: "+
				"there is no program for this platform, or the module is of no release", archive)
		}
		return fetched(ctx, strings.TrimRight(address, "/")+"/"+archive, sum)
	}
	return "minibroker", nil
}

// damage returns a sentence for a program that has ended too early.
func damage(program string) string {
	if folder, err := cacheFolder(); err == nil && strings.HasPrefix(program, folder) {
		return "; if the cache is damaged, remove " + filepath.Dir(program)
	}
	return ""
}

// hint returns a sentence for a program that does not start.
func hint(program string) string {
	if program != "minibroker" {
		return "MINIBROKER_COMMAND and MINIBROKER_BINARY name a program, or nothing" + damage(program)
	}
	return fmt.Sprintf("MINIBROKER_BINARY names the program or its archive for %s, "+
		"and MINIBROKER_RELEASES the address to fetch it from", platform())
}

func cacheFolder() (string, error) {
	folder, err := os.UserCacheDir()
	if home := os.Getenv("XDG_CACHE_HOME"); home != "" {
		folder, err = home, nil
	}
	if err == nil && !filepath.IsAbs(folder) {
		err = fmt.Errorf("the folder for caches is not absolute: %q", folder)
	}
	return filepath.Join(folder, "minibroker", "binary"), err
}

// folderOf returns the folder of the cache for the archive with this checksum.
func folderOf(sum string) string {
	folder, _ := cacheFolder()
	return filepath.Join(folder, sum[:16])
}

// cached returns the program in the cache that was unpacked from the archive with this checksum, or "".
func cached(sum string) string {
	program := filepath.Join(folderOf(sum), "minibroker", "minibroker")
	if runtime.GOOS == "windows" {
		program += ".exe"
	}
	if _, err := os.Stat(program); err != nil || !filepath.IsAbs(program) {
		return ""
	}
	_ = os.Chtimes(folderOf(sum), time.Now(), time.Now()) // It is in use: see removeUnused.
	return program
}

// fetched returns the program of a release's archive, which is fetched and unpacked into the cache.
func fetched(ctx context.Context, url, sum string) (string, error) {
	fail := func(err error) (string, error) {
		return "", fmt.Errorf("minibroker: %s cannot be fetched: %w", url, err)
	}
	onlyHTTPS := errors.New("its address does not begin with https://")
	if !strings.HasPrefix(url, "https://") {
		return fail(onlyHTTPS)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return fail(err)
	}
	client := &http.Client{CheckRedirect: func(request *http.Request, via []*http.Request) error {
		if request.URL.Scheme != "https" || len(via) > 10 {
			return onlyHTTPS
		}
		return nil
	}}
	response, err := client.Do(request)
	if err != nil {
		return fail(err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fail(errors.New(response.Status))
	}
	content, err := io.ReadAll(response.Body)
	if err != nil {
		return fail(err)
	}
	return unpacked(url, content, sum)
}

// unpackedFile returns the program of an archive, which is unpacked into the cache once.
func unpackedFile(archive string) (string, error) {
	expected := checksum(filepath.Base(archive))
	if expected != "" {
		if program := cached(expected); program != "" {
			return program, nil
		}
	}
	content, err := os.ReadFile(archive)
	if err != nil {
		return "", fmt.Errorf("minibroker: MINIBROKER_BINARY: %w", err)
	}
	return unpacked(archive, content, expected)
}

// unpacked returns the program of an archive's content, which has to have this checksum unless that is "".
func unpacked(name string, content []byte, expected string) (string, error) {
	digest := sha256.Sum256(content)
	sum := hex.EncodeToString(digest[:])
	if expected != "" && sum != expected {
		return "", fmt.Errorf("minibroker: %s is damaged: its SHA-256 is %s, and that of the release %s", name, sum, expected)
	}
	if program := cached(sum); program != "" {
		return program, nil
	}
	folder, err := cacheFolder()
	if err == nil {
		err = unpack(content, folder, folderOf(sum))
	}
	if err == nil && cached(sum) == "" {
		err = fmt.Errorf("remove %s, which is damaged", folderOf(sum))
	}
	if err != nil {
		return "", fmt.Errorf("minibroker: %s cannot be unpacked into the cache: %w; XDG_CACHE_HOME names another folder than %s",
			name, err, folder)
	}
	removeUnused(folder)
	return cached(sum), nil
}

// unpack fills a folder beside the target, which then takes its name: several processes can do it at the same time.
func unpack(content []byte, folder, target string) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	scratch, err := os.MkdirTemp(folder, filepath.Base(target)+".")
	if err != nil {
		return err
	}
	defer os.RemoveAll(scratch)
	tar := exec.Command("tar", "-xzf", "-")
	tar.Dir, tar.Stdin = scratch, bytes.NewReader(content)
	if output, err := tar.CombinedOutput(); err != nil {
		return fmt.Errorf("tar: %w: %s", err, bytes.TrimSpace(output))
	}
	err = os.Rename(scratch, target)
	if _, absent := os.Stat(target); absent == nil { // It is there, or another process was first.
		return nil
	}
	return err
}

// removeUnused removes folders of the cache that nothing has been started from for a month.
func removeUnused(folder string) {
	entries, _ := os.ReadDir(folder)
	for _, entry := range entries {
		if info, err := entry.Info(); err == nil && time.Since(info.ModTime()) > unusedFor {
			_ = os.RemoveAll(filepath.Join(folder, entry.Name()))
		}
	}
}
