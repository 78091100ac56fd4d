// Package provenance records the origin of a measured figure: commit, sources, machine, load, date
// and command. A figure is outdated if its sources have changed since.
package provenance

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// Measurement is the provenance of figures. Empty fields are unknown. Figures without a digest are
// outdated.
type Measurement struct {
	Commit  string     `json:"commit"`
	Date    string     `json:"date"`
	Command string     `json:"command"`
	Machine Machine    `json:"machine"`
	Load    [2]float64 `json:"load"` // one-minute load average at start and end; negative: unknown
	Sources []string   `json:"sources"`
	Digest  string     `json:"digest"` // digest of the sources
}

// Machine describes a machine on which figures were measured.
type Machine struct {
	CPU   string `json:"cpu"`
	Cores int    `json:"cores"`
	MiB   int    `json:"memory_mib"`
	OS    string `json:"os"`
	Go    string `json:"go"`
}

func (m Machine) String() string {
	memory := "memory unknown"
	if m.MiB > 0 {
		memory = fmt.Sprintf("%d MiB", m.MiB)
	}
	return fmt.Sprintf("%d x %s, %s, %s, %s", m.Cores, m.CPU, memory, m.OS, m.Go)
}

// ThisMachine describes the machine of this process.
func ThisMachine() Machine {
	m := Machine{CPU: "unknown", Cores: runtime.NumCPU(), OS: runtime.GOOS + "/" + runtime.GOARCH, Go: runtime.Version()}
	if model := field("/proc/cpuinfo", "model name"); model != "" {
		m.CPU = model
	}
	if kb, _, ok := strings.Cut(field("/proc/meminfo", "MemTotal"), " "); ok {
		n, _ := strconv.Atoi(kb) // unknown without /proc
		m.MiB = n >> 10
	}
	return m
}

// field returns the first value of the given name in a file of "name: value" lines.
func field(file, name string) string {
	text, _ := os.ReadFile(file) // absent outside of Linux
	for line := range strings.Lines(string(text)) {
		if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// Load returns the one-minute load average, or -1 if the system does not report it.
func Load() float64 {
	text, _ := os.ReadFile("/proc/loadavg") // absent outside of Linux
	first, _, _ := strings.Cut(string(text), " ")
	load, err := strconv.ParseFloat(first, 64)
	if err != nil {
		return -1
	}
	return load
}

// Run is one run of a measuring program.
type Run struct {
	Root    string // root of the repository
	Command string
	load    float64
}

// Begin starts a run and records the load of the machine.
func Begin(command string) (*Run, error) {
	root, err := Root()
	return &Run{Root: root, Command: command, load: Load()}, err
}

// Of returns the provenance of the run's measurements so far, for these sources.
func (r *Run) Of(ctx context.Context, sources []string) (Measurement, error) {
	out, err := exec.CommandContext(ctx, "git", "-C", r.Root, "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*").Output()
	if err != nil {
		return Measurement{}, fmt.Errorf("read the commit of %s: %w", r.Root, err)
	}
	digest, err := Digest(os.DirFS(r.Root), sources)
	return Measurement{
		Commit: strings.TrimSpace(string(out)), Date: time.Now().UTC().Format(time.DateOnly), Command: r.Command,
		Machine: ThisMachine(), Load: [2]float64{r.load, Load()}, Sources: sources, Digest: digest,
	}, err
}

// Older reports whether the sources of a measurement have changed since.
func (m Measurement) Older(root string) (bool, error) {
	now, err := Digest(os.DirFS(root), m.Sources)
	return now != m.Digest, err
}

// Row returns the provenance as a row for the table of Head.
func (m Measurement) Row(name string, older bool) string {
	known := func(s string) string {
		if s == "" {
			return "unknown"
		}
		return s
	}
	load := "unknown"
	if m.Load[0] >= 0 {
		load = fmt.Sprintf("%.2f, %.2f", m.Load[0], m.Load[1])
	}
	return fmt.Sprintf("| %s | %s | %s | %s | %s | %s | %s | `%s` | %s |\n",
		name, Yes(!older), m.Commit, m.Date, m.Machine, load, known(m.Command), strings.Join(m.Sources, "` `"), known(m.Digest[:min(12, len(m.Digest))]))
}

// Yes formats a Boolean as a cell of a table.
func Yes(holds bool) string {
	if holds {
		return "yes"
	}
	return "**no**"
}

// Head returns the head of a table of provenance.
const Head = "| figures | current | commit | date | machine | load before, after | command | sources | their digest |\n" +
	"|---|---|---|---|---|---|---|---|---|\n"

// Root returns the root of the repository that contains the working directory.
func Root() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "integration", "go.mod")); err == nil {
			return dir, nil
		}
		up := filepath.Dir(dir)
		if up == dir {
			return "", fmt.Errorf("find the repository: no directory above the working directory has integration/go.mod")
		}
		dir = up
	}
}

// Digest hashes the names and contents of the Go and Python files in files and directories, except
// tests.
func Digest(root fs.FS, sources []string) (string, error) {
	sum := sha256.New()
	for _, source := range sources {
		err := fs.WalkDir(root, source, func(name string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			if d.IsDir() {
				if name != source && (d.Name() == "testdata" || d.Name() == "testing") {
					return fs.SkipDir
				}
				return nil
			}
			if ext := path.Ext(name); ext != ".go" && ext != ".py" || strings.HasSuffix(name, "_test.go") {
				return nil
			}
			text, err := fs.ReadFile(root, name)
			fmt.Fprintf(sum, "%s\x00%d\x00%s", name, len(text), text)
			return err
		})
		if err != nil {
			return "", fmt.Errorf("hash the sources of a figure: %w", err)
		}
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// Write stores a file of figures as JSON.
func Write(file string, figures any) error {
	text, err := json.MarshalIndent(figures, "", " ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	return os.WriteFile(file, append(text, '\n'), 0o644)
}

// Read reads all files of figures in a directory, in the order of their names.
func Read[T any](dir string) ([]T, error) {
	names, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil {
		return nil, err
	}
	all := make([]T, len(names))
	for i, name := range names {
		text, err := os.ReadFile(name)
		if err == nil {
			err = json.Unmarshal(text, &all[i])
		}
		if err != nil {
			return nil, fmt.Errorf("read figures: %s: %w", name, err)
		}
	}
	return all, nil
}

// Note explains a result. It is valid only with a profile of the same run.
type Note struct {
	Commit  string `json:"commit"`
	Profile string `json:"profile"` // a file of the repository: a pprof profile, or its printed form
	Text    string `json:"text"`
}

// Explain returns the text of a note if it is about the measured run and its profile exists.
func (m Measurement) Explain(root string, n *Note) string {
	if n == nil || n.Commit != m.Commit || n.Profile == "" {
		return "Not investigated."
	}
	if _, err := os.Stat(filepath.Join(root, n.Profile)); err != nil {
		return "Not investigated."
	}
	return fmt.Sprintf("%s (Profile: `%s`.)", n.Text, n.Profile)
}
