//go:build linux

package slurm_test

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/millrace-data/millrace/integration/harness"
)

const (
	shards = 1000
	heldAt = "/photos/shard-00500.tar" // in the middle of part 4 of 16
)

// paste runs a block of the page that submits an array and the job that joins its parts. It returns
// the IDs of both jobs.
func (l *lab) paste(t *testing.T, env []string, block string) (array, join string) {
	t.Helper()
	command := append([]string{"env"}, append(l.store.Env, env...)...)
	out, err := l.command(t, append(command, "bash", "-euc", block+"echo $parts")...)
	fields := strings.Fields(out)
	if err != nil || len(fields) != 2 {
		t.Fatalf("%s: got %q, %v", block, out, err)
	}
	return fields[1], fields[0]
}

// TestIndexInParts runs the page's commands. One of the 16 parts of an array is killed in the
// middle of its shards, and a join names that part. After the part has run again, a join has the
// same result as indexing on one machine.
func TestIndexInParts(t *testing.T) {
	l := newLab(t, 2)
	bucket := l.store.Objects(t)
	harness.PutShards(t, bucket, "photos/", shards)
	script, err := filepath.Abs("../../deploy/slurm/index.sbatch")
	if err == nil {
		err = os.Symlink(script, l.file("index.sbatch"))
	}
	if err != nil {
		t.Fatal(err)
	}
	blocks := pageBlocks(t)
	env := append(l.reads.Env, "MILLRACE="+harness.Binary(t))
	asked, release := l.reads.Hold(heldAt)
	begin := time.Now()
	array, join := l.paste(t, env, blocks[3])
	select {
	case <-asked:
	case <-time.After(time.Minute):
		t.Fatalf("nobody has read %s\n%s", heldAt, l.logs(t))
	}
	killed := running(t, "--part 4/16")
	for _, pid := range killed {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
	}
	if len(killed) != 1 {
		t.Fatalf("got %v killed, want one task", killed)
	}
	if state := l.ended(t, join); state != "FAILED 1:0" {
		t.Errorf("the join without a part: got %s\n%s", state, l.logs(t))
	}
	states := strings.Split(l.ended(t, array), "\n")
	slices.Sort(states)
	if want := append(slices.Repeat([]string{"COMPLETED 0:0"}, 15), "FAILED 0:9"); !slices.Equal(states, want) {
		t.Errorf("the array: got %q, want %q\n%s", states, want, l.logs(t))
	}
	said, err := os.ReadFile(l.file("slurm-" + join + ".out"))
	for _, want := range []string{"63 of 1,000 shards (", ") are missing, unfinished parts: 1 of 16.", "index s3://train/photos --part 4/16  # 63 shards"} {
		if err != nil || !strings.Contains(string(said), want) {
			t.Errorf("the join without a part: got %s, %v, want %s", said, err, want)
		}
	}
	release()
	again, join := l.paste(t, env, blocks[4])
	if state := l.ended(t, join); state != "COMPLETED 0:0" || l.ended(t, again) != "COMPLETED 0:0" {
		t.Fatalf("the part once more, and the join: got %s\n%s", state, l.logs(t))
	}
	took := time.Since(begin)
	said, err = os.ReadFile(l.file("slurm-" + join + ".out"))
	if err != nil || !strings.Contains(string(said), "read 0 B, reused 1,000 shards") {
		t.Errorf("the join: got %s, %v, want no shard read", said, err)
	}
	got := harness.TakeIndex(t, bucket, "photos/")
	harness.MustRun(t, l.store, "index", l.store.Dataset("photos"))
	if want := harness.TakeIndex(t, bucket, "photos/"); !maps.Equal(got, want) {
		t.Errorf("got %q beside the shards, want %q with the same bytes", slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(want)))
	}
	t.Logf("figure: %d shards indexed by an array of 16 tasks on 2 machines, one of them killed and submitted again, and joined twice, in %.1f s", shards, took.Seconds())
}
