//go:build linux

package release_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/millrace-data/millrace/integration/harness"
)

// TestUnit reads the unit of systemd as systemd does, and runs its commands in a root of their own: the check of the settings, and the
// gateway until it is told to end.
func TestUnit(t *testing.T) {
	root := newRoot(t)
	unit := "usr/lib/systemd/system/millrace.service"
	for _, dir := range []string{"usr/lib/systemd/system", "etc/millrace"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	command(t, "", "cp", "../../deploy/systemd/millrace.service", filepath.Join(root, unit))
	command(t, "", "cp", harness.Binary(t), filepath.Join(root, "usr/bin/millrace"))
	verifyUnit(t, root)

	samples, _ := harness.Files(t, 64, 1000)
	command(t, "", "cp", "-r", samples, filepath.Join(root, "samples"))
	command(t, "", "chroot", root, "/usr/bin/millrace", "pack", "/samples", "/tmp/photos")
	listen := harness.FreeAddress(t)
	settings := fmt.Sprintf("data:\n  dataset: [photos=/tmp/photos]\nports:\n  listen: %s\n  lame-duck: 0s\n", listen)
	if err := os.WriteFile(filepath.Join(root, "etc/millrace/millrace.yaml"), []byte(settings), 0o644); err != nil {
		t.Fatal(err)
	}
	commands := map[string][]string{}
	for line := range strings.Lines(string(read(t, filepath.Join(root, unit)))) {
		if key, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok {
			commands[key] = strings.Fields(value)
		}
	}
	command(t, "", "chroot", append([]string{root}, commands["ExecStartPre"]...)...)
	g := harness.Start(t, "millrace.service", "/usr/sbin/chroot", nil, append([]string{root}, commands["ExecStart"]...)...)
	g.Ready(t, harness.Answers("http://"+listen+"/readyz"))
	if err := g.Stop(); err != nil {
		t.Errorf("it was told to end: %v", err)
	}
}

// verifyUnit has systemd read the unit that was installed in a root: it knows each of its settings, and finds the programs.
func verifyUnit(t *testing.T, root string) {
	t.Helper()
	command(t, "", "cp", "-L", "/bin/kill", filepath.Join(root, "bin/kill")) // which every machine with systemd has
	said := command(t, "", "systemd-analyze", "verify", "--man=no", "--recursive-errors=no", "--root="+root, "millrace.service")
	if said != "" {
		t.Errorf("systemd says of the unit: %s", said)
	}
}
