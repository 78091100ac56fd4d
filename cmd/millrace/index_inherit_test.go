package main

import (
	"strings"
	"testing"
)

func TestIndex_KeepsTheDefaultsOfTheEarlierIndex(t *testing.T) {
	dir := shards(t)
	ok(t, "index", dir, "--batch-size", "3", "--shuffle", "window", "--chunk-size", "2KiB")
	first := ok(t, "info", dir).stdout
	o := ok(t, "index", dir)
	if want := "defaults of the earlier index: --batch-size 3 --shuffle window --window 4 --chunk-size 2KiB\n"; !strings.HasSuffix(o.stderr, want) {
		t.Errorf("got %q, want %q", o.stderr, want)
	}
	if got := ok(t, "info", dir).stdout; got != first {
		t.Errorf("got\n%s\nwant\n%s", got, first)
	}
	ok(t, "index", dir, "--batch-size", "5")
	if o = ok(t, "index", dir, "--batch-size", "7"); !strings.Contains(o.stderr, "the generation changes: --batch-size 7 instead of 5\n") {
		t.Errorf("got %q, want the flag that changed", o.stderr)
	}
	if got := ok(t, "info", dir).stdout; !strings.Contains(got, "shuffle window, window 4, batch size 7,") {
		t.Errorf("got %s, want the batch size of the flag and the rest of the earlier index", got)
	}
}
