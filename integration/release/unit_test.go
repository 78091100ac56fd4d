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

// TestUnit verifies the systemd unit with systemd, and runs the unit's commands in a separate root:
// the check of the settings, and the gateway until SIGTERM.
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

// verifyUnit runs systemd-analyze on the unit in a root. systemd must know each setting, and find
// the programs.
func verifyUnit(t *testing.T, root string) {
	t.Helper()
	command(t, "", "cp", "-L", "/bin/kill", filepath.Join(root, "bin/kill")) // exists on every machine with systemd
	said := command(t, "", "systemd-analyze", "verify", "--man=no", "--recursive-errors=no", "--root="+root, "millrace.service")
	if said != "" {
		t.Errorf("systemd says of the unit: %s", said)
	}
}
