package main

import "testing"

func TestCollectAt(t *testing.T) {
	for alive, want := range map[uint64]int{
		0: 800, 1 << 20: 800, 4 << 20: 300, 12 << 20: 100, 64 << 20: 25, 1 << 40: 25,
	} {
		if got := collectAt(alive); got != want {
			t.Errorf("got %d %% for %d bytes alive, want %d %%", got, alive, want)
		}
	}
}
