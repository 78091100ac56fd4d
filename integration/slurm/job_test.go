//go:build linux

package slurm_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/millrace-data/millrace/integration/harness"
)

const samples = 2048

// newGateways returns a cluster of two machines with a dataset and the page's files, the
// environment of its jobs, and the size of the data.
func newGateways(t *testing.T) (l *lab, env []string, size int64) {
	t.Helper()
	l = newLab(t, 2)
	files, content := harness.Files(t, samples, 8192)
	harness.Pack(t, l.store, files, "photos", "--shard-size", "1MiB", "--chunk-size", "64KiB")
	for _, text := range content {
		size += int64(len(text))
	}
	blocks := pageBlocks(t)
	l.write(t, "millrace.yaml", blocks[0])
	l.write(t, "train.py", blocks[1])
	interpreter, _ := harness.Python(t)
	if err := os.Mkdir(l.file("bin"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(interpreter, l.file("bin/python3")); err != nil {
		t.Fatal(err)
	}
	env = append(l.reads.Env, "MILLRACE_CONFIG="+l.file("millrace.yaml"), "MILLRACE="+harness.Binary(t), "START_SECONDS=30")
	return l, env, size
}

// pageBlocks returns the blocks of docs/slurm.md: the settings, the job, and the command that
// submits it; an array that creates an index, and the command that repeats one of its tasks.
func pageBlocks(t *testing.T) []string {
	t.Helper()
	page, err := os.ReadFile("../../docs/slurm.md")
	if err != nil {
		t.Fatal(err)
	}
	var blocks []string
	inside := false
	for line := range strings.Lines(string(page)) {
		text, code := strings.CutPrefix(line, "        ")
		switch {
		case code && !inside:
			blocks = append(blocks, text)
		case code:
			blocks[len(blocks)-1] += text
		case inside && line == "\n":
			blocks[len(blocks)-1] += line
			continue
		}
		inside = code
	}
	if len(blocks) != 5 {
		t.Fatalf("docs/slurm.md: got %d blocks, want 5: %q", len(blocks), blocks)
	}
	return blocks
}

// running returns the processes of a program on all machines: their PIDs by command line.
func running(t *testing.T, words string) map[string]int {
	t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]int{}
	for _, name := range all {
		text, err := os.ReadFile(name)
		line := strings.ReplaceAll(string(text), "\x00", " ")
		if err != nil || !strings.Contains(line, words) {
			continue // it may have exited
		}
		var pid int
		if _, err := fmt.Sscanf(name, "/proc/%d/", &pid); err != nil {
			t.Fatal(err)
		}
		found[line] = pid
	}
	return found
}

// TestJob runs the page's commands. The job reads each sample once. Its two gateways together read
// each byte from the store once, half of them each, and exit with the job.
func TestJob(t *testing.T) {
	l, env, size := newGateways(t)
	fields := strings.Fields(strings.TrimSpace(pageBlocks(t)[2]))
	if fields[0] != "MILLRACE_CONFIG=$PWD/millrace.yaml" || fields[1] != "sbatch" || fields[2] != "--parsable" {
		t.Fatalf("docs/slurm.md submits by %q", fields)
	}
	env = append(env, "PATH="+l.file("bin")+":"+os.Getenv("PATH"))
	begin := time.Now()
	id := l.submit(t, env, fields[3:]...)
	state := l.ended(t, id)
	took := time.Since(begin)
	if state != "COMPLETED 0:0" {
		t.Fatalf("got %s\n%s", state, l.logs(t))
	}
	read, ranks := 0, 0
	out, err := os.ReadFile(l.file("slurm-" + id + ".out"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(out)) {
		var rank, n int
		if _, err := fmt.Sscanf(line, "rank %d read %d", &rank, &n); err == nil {
			read, ranks = read+n, ranks+1
		}
	}
	if read != samples || ranks != 8 {
		t.Errorf("got %d samples by %d ranks, want %d by 8\n%s", read, ranks, samples, l.logs(t))
	}
	by := map[string]int64{}
	for _, r := range l.reads.All() {
		by[r.Who] += r.Bytes()
	}
	total := l.reads.Bytes()
	t.Logf("figure: %d bytes of %d samples read by 8 ranks in a job of %.1f s; the store was asked for %d, %v", size, read, took.Seconds(), total, by)
	if again := l.reads.Again(); again*20 > total || len(by) != 2 {
		t.Errorf("got %d of %d bytes read twice, by %v; want at most one in twenty, and two readers", again, total, by)
	}
	for who, n := range by {
		if n*3 < total {
			t.Errorf("got %d of %d bytes read by %s, want about half", n, total, who)
		}
	}
	if left := running(t, harness.Binary(t)); len(left) > 0 {
		t.Errorf("got gateways after the job: %v", left)
	}
}

// TestNothingStays kills the batch script, or the job, while the gateways and the job run, and
// checks that no process remains.
func TestNothingStays(t *testing.T) {
	l, env, _ := newGateways(t)
	marker := l.file("a-long-job")
	l.write(t, "a-long-job", "sleep 1000\n")
	for _, how := range []string{"script", "job"} {
		id := l.submit(t, env, "--nodes", "2", "--ntasks-per-node", "1", "millrace.sbatch", "bash", marker)
		for begin := time.Now(); len(running(t, "bash "+marker)) == 0; time.Sleep(50 * time.Millisecond) {
			if time.Since(begin) > time.Minute {
				t.Fatalf("the job has not begun\n%s", l.logs(t))
			}
		}
		if got := len(running(t, harness.Binary(t)+" serve")); got == 0 {
			t.Fatalf("got no gateways beside the job")
		}
		want := "CANCELLED"
		switch how {
		case "script":
			want = "FAILED"
			for _, pid := range running(t, "job"+fmt.Sprintf("%05s", id)+"/slurm_script") {
				if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
					t.Fatal(err)
				}
			}
		case "job":
			if _, err := l.command(t, "scancel", id); err != nil {
				t.Fatal(err)
			}
		}
		if state := l.ended(t, id); !strings.HasPrefix(state, want) {
			t.Errorf("%s killed: got %s, want %s\n%s", how, state, want, l.logs(t))
		}
		for _, words := range []string{harness.Binary(t), marker} {
			if left := running(t, words); len(left) > 0 {
				t.Errorf("%s killed: got %v, want nothing left", how, left)
			}
		}
	}
}

// TestFaultsOfAJob checks that Slurm reports the exit code of the job, and that a fault of the
// gateways ends the job without delay.
func TestFaultsOfAJob(t *testing.T) {
	l, env, _ := newGateways(t)
	// srun kills the other rank as soon as one exits, and counts a killed rank as exit code
	// 143, which is more than 7. Each rank therefore waits until the other would also exit with
	// 7 on the signal.
	l.write(t, "ends", `trap 'exit 7' TERM
touch here-"$SLURM_PROCID"
until [ -e here-0 ] && [ -e here-1 ]; do sleep 0.1; done
exit "${MILLRACE_CONFIG:-7}"
`)
	code := l.submit(t, env, "--nodes", "2", "millrace.sbatch", "bash", l.file("ends"))
	if state := l.ended(t, code); state != "FAILED 7:0" {
		t.Errorf("a job that ends with 7: got %s\n%s", state, l.logs(t))
	}
	wrong := l.submit(t, append(env, "MILLRACE_DATASET=photos=s3://train/nowhere"), "--nodes", "2", "millrace.sbatch", "true")
	state := l.ended(t, wrong)
	if state != "FAILED 1:0" || !strings.Contains(l.logs(t), "gateways-"+wrong+".log says why") { // a timeout would report "is not ready"
		t.Errorf("gateways that cannot start: got %s\n%s", state, l.logs(t))
	}
}
