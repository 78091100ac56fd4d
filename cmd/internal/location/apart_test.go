package location

import (
	"os/user"
	"path/filepath"
	"testing"
)

func TestCacheDir_WithoutHOMEUsesUserDatabase(t *testing.T) {
	me, err := user.Current()
	if err != nil || me.HomeDir == "" {
		t.Fatalf("got %+v, %v, want a user with a home", me, err)
	}
	t.Setenv("HOME", "")
	t.Setenv("XDG_CACHE_HOME", "")
	if dir, err := CacheDir(); err != nil || dir != filepath.Join(me.HomeDir, ".cache") {
		t.Errorf("got %q, %v, want .cache in %s", dir, err, me.HomeDir)
	}
}
