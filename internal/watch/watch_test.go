package watch

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestFile_ComparesContent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := File{What: "file", Name: filepath.Join(t.TempDir(), "f"), MaxBytes: 10}
		write := func(text string) {
			if err := os.WriteFile(f.Name, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		none := f.Read()
		if !errors.Is(none.Err, fs.ErrNotExist) || !none.Same(f.Read()) {
			t.Errorf("got %v, want a missing file", none.Err)
		}
		write("one")
		one, changed := f.Changed(t.Context(), none)
		if !changed || string(one.Text) != "one" {
			t.Errorf("got %q, %v, want the new text", one.Text, changed)
		}
		write("one") // same text: the modification time does not count
		if _, changed := f.Changed(t.Context(), one); changed {
			t.Error("the same content was reported as changed")
		}
		go func() {
			write("tw")
			time.Sleep(Settle / 2)
			write("two")
		}()
		time.Sleep(Settle / 4)
		if got, changed := f.Changed(t.Context(), one); changed {
			t.Errorf("got %q, want nothing of a file that is being written", got.Text)
		}
		write("thr")
		go func() {
			time.Sleep(Settle / 2)
			write("three")
		}()
		if got := f.Settled(t.Context(), one); string(got.Text) != "three" {
			t.Errorf("got %q, want the content after the last write", got.Text)
		}
		write("more than ten bytes")
		if got := f.Read(); got.Err == nil || !strings.Contains(got.Err.Error(), "more than 10 bytes") {
			t.Errorf("got %v, want an error for a file that is too long", got.Err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, changed := f.Changed(ctx, one); changed {
			t.Error("got a change after the context ended")
		}
	})
}
