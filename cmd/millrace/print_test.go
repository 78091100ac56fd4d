package main

import (
	"bytes"
	"strings"
	"syscall"
	"testing"
)

type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, syscall.ENOSPC }

func TestOutputThatCannotBeWrittenIsAFailure(t *testing.T) {
	for _, form := range []string{"--json=false", "--json"} {
		var stderr bytes.Buffer
		if got := run(t.Context(), []string{"version", form}, nil, fullDisk{}, &stderr); got != exitFailure || !strings.Contains(stderr.String(), "no space") {
			t.Errorf("%s: got exit code %d and %q, want %d and the cause", form, got, &stderr, exitFailure)
		}
	}
}

func TestWhatWouldBePassedOverIsAFault(t *testing.T) {
	for _, args := range [][]string{
		{"plan", "x", "--batch", "1"},
		{"serve", "--dataset", "a=/x", "--deadline", "0s"},
		{"serve", "--dataset", "a=/x", "--budget-wait", "0s"},
		{"help", "nonsense"},
		{"completion", "nonsense"},
		{"completion", "bash", "stray"},
	} {
		if o := millrace(t, nil, args...); o.code != exitUsage || o.stdout != "" {
			t.Errorf("%q: got exit code %d and %q, want %d\n%s", args, o.code, o.stdout, exitUsage, o.stderr)
		}
	}
}

func TestHelpIsAlsoACommand(t *testing.T) {
	for _, command := range [][]string{{}, {"serve"}, {"completion", "bash"}} {
		got, want := ok(t, append([]string{"help"}, command...)...).stdout, ok(t, append(command, "--help")...).stdout
		if got != want || want == "" {
			t.Errorf("help %v: got\n%s\nwant\n%s", command, got, want)
		}
	}
}
