package main

import (
	"path/filepath"
	"strings"
	"testing"
)

// TestExitCodes_AgreeInAllCommands checks the table of docs/spec/output.md with every command: 2
// for an unknown flag, 4 for a missing dataset or source, 5 for a gateway that does not respond.
func TestExitCodes_AgreeInAllCommands(t *testing.T) {
	missing, gateway := filepath.Join(t.TempDir(), "none"), deadGateway(t)
	batch := "/epoch/0/batch/0?generation=" + strings.Repeat("ab", 32)
	dataset := map[string]string{ // further arguments of each command that reads a dataset
		"audit": missing, "gc": missing, "index": missing, "info": missing, "occurrences": batch + " --key k --epochs 0 --offline " + missing,
		"cost": "tokens " + missing + " --from n", "cost list": missing, "pack": missing + " " + t.TempDir(),
		"plan": missing, "quarantine": missing + " --key k", "quarantine list": missing, "reports list": missing, "serve": missing,
		"simulate": missing + " --rate 1/s --cache-size 1GiB --store-bandwidth 1GB/s", "subset": missing + " --into a=1,b=1", "subset list": missing, "verify": missing,
	}
	served := map[string]string{ // further arguments of each command that uses a gateway
		"datasets": gateway, "fetch": gateway + "", "info": gateway + "/photos", "occurrences": gateway + "/photos --key k --epochs 0",
		"explain": gateway, "top": gateway, "warm": gateway,
	}
	neither := map[string]bool{"demo": true, "reports": true, "token": true, "version": true}
	check := func(code int, args ...string) {
		if o := millrace(t, nil, args...); o.code != code || strings.Contains(o.stderr, "\n\n") {
			t.Errorf("%q: got exit code %d, want %d\n%s", args, o.code, code, o.stderr)
		}
	}
	dir := shards(t)
	check(exitNotFound, "quarantine", dir, "--key", "nope")
	check(exitNotFound, "quarantine", dir, "--keys", missing)
	check(exitNotFound, "subset", dir, "--keys", missing)
	check(exitUsage, "serve", dir, "--check", "--mixture", "a=nope:1", "--cache-size", "64MiB")
	check(exitUsage, "serve", dir, "--check", "--listen", "127.0.0.1:99999")
	for _, c := range commands(t) {
		name := strings.TrimPrefix(c.CommandPath(), "millrace ")
		words := strings.Fields(name)
		check(exitUsage, append(words, "--no-such-flag")...)
		of, stored := dataset[name]
		at, asks := served[name]
		if stored {
			check(exitNotFound, append(words, strings.Fields(of)...)...)
		}
		if asks {
			check(exitStore, append(words, strings.Fields(at)...)...)
		}
		if !stored && !asks && !neither[name] {
			t.Errorf("%s: want it in a list of this test", name)
		}
	}
}
