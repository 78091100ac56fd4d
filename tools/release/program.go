package main

import (
	"debug/buildinfo"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
)

// program is millrace for one platform.
type program struct {
	system, arch string // names that Go uses
	path         string
}

func (p program) platform() string { return p.system + "_" + p.arch }

// buildPrograms builds with the arguments of tools/wheels.py, so that a wheel, an archive and the
// image contain identical programs.
func (r *release) buildPrograms() error {
	for _, system := range []string{"linux", "darwin"} {
		for _, arch := range []string{"amd64", "arm64"} {
			p := program{system: system, arch: arch}
			p.path = filepath.Join(r.work, p.platform(), "millrace")
			cmd := exec.Command("go", "build", "-trimpath", "-buildvcs=true", "-ldflags", "-s -w", "-o", p.path, "./cmd/millrace")
			cmd.Dir, cmd.Stderr = r.root, os.Stderr
			cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+system, "GOARCH="+arch)
			if err := cmd.Run(); err != nil {
				return fmt.Errorf("%s: %w", p.platform(), err)
			}
			r.programs = append(r.programs, p)
		}
	}
	info, err := buildinfo.ReadFile(r.programs[0].path)
	if err != nil {
		return err
	}
	r.version = strings.TrimPrefix(info.Main.Version, "v")
	if strings.ContainsAny(r.version, "(+") { // (devel), or +dirty
		return fmt.Errorf("the program's version is %q, want that of a commit: build in a clone of the repository, not in a worktree of git", info.Main.Version)
	}
	return nil
}

// native returns the path of this machine's program.
func (r *release) native() (string, error) {
	for _, p := range r.programs {
		if p.system == runtime.GOOS && p.arch == runtime.GOARCH {
			return p.path, nil
		}
	}
	return "", fmt.Errorf("no program for %s/%s, which is needed to write completions", runtime.GOOS, runtime.GOARCH)
}

// collectPapers collects the files that accompany a program: license, README, the licenses of all
// modules, the manual, and the completions that the program writes.
func (r *release) collectPapers() error {
	native, err := r.native()
	if err != nil {
		return err
	}
	for _, name := range []string{"LICENSE", "README.md"} {
		text, err := os.ReadFile(filepath.Join(r.root, name))
		if err != nil {
			return err
		}
		r.papers = append(r.papers, file{name: name, data: text, mode: 0o644})
	}
	licenses, err := r.licenses()
	if err != nil {
		return err
	}
	r.papers = append(r.papers, file{name: "LICENSES-OF-MODULES", data: licenses, mode: 0o644})
	for shell, name := range map[string]string{"bash": "millrace.bash", "zsh": "_millrace", "fish": "millrace.fish"} {
		text, err := r.output(native, "completion", shell)
		if err != nil {
			return err
		}
		r.papers = append(r.papers, file{name: "completions/" + name, data: []byte(text + "\n"), mode: 0o644})
	}
	pages, err := r.manual()
	if err != nil {
		return err
	}
	r.papers = sorted(append(r.papers, pages...))
	return nil
}
