package main

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

// TestMain gives all tests an empty user cache, for indexes that are not stored with the shards.
func TestMain(m *testing.M) {
	cache, err := os.MkdirTemp("", "millrace-cache-")
	if err != nil {
		panic(err)
	}
	os.Setenv("XDG_CACHE_HOME", cache)
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		os.RemoveAll(cache)
		os.Exit(code)
	}))
}
