//go:build linux

package slurm_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/millrace-data/millrace/integration/harness"
)

// configuration is that of a cluster in directory %[1]s. It requires neither control groups nor
// accounts.
const configuration = `
ClusterName=lab
SlurmctldHost=control
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket=%[1]s/munge.socket
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmdParameters=config_overrides
ReturnToService=2
MpiDefault=none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
KillWait=5
SchedulerParameters=sched_interval=1,batch_sched_delay=0,sched_min_interval=100000
StateSaveLocation=%[1]s/state
SlurmctldPidFile=%[1]s/control.pid
SlurmdSpoolDir=%[1]s/spool-%%n
SlurmdPidFile=%[1]s/%%n.pid
NodeName=%[2]s CPUs=8
PartitionName=main Nodes=ALL Default=YES MaxTime=10 State=UP
`

// lab is a Slurm cluster and a store.
type lab struct {
	control *harness.Node
	nodes   []string
	store   *harness.Store
	reads   *harness.Reads
	dir     string // shared by all machines
	env     []string
}

// newLab starts a cluster with the given number of machines (node-1 and so on), and waits until it
// accepts jobs.
func newLab(t *testing.T, machines int) *lab {
	t.Helper()
	island := harness.NewIsland(t)
	l := &lab{dir: t.TempDir()}
	if err := os.Chmod(l.dir, 0o755); err != nil { // otherwise munged does not trust it
		t.Fatal(err)
	}
	names := []string{"store", "control"}
	for i := range machines {
		l.nodes = append(l.nodes, fmt.Sprintf("node-%d", i+1))
	}
	at, hosts := map[string]*harness.Node{}, "127.0.0.1 localhost\n"
	for _, name := range append(names, l.nodes...) {
		at[name] = island.Node(t, name, "")
		hosts += at[name].IP + " " + name + "\n"
	}
	l.control = at["control"]
	l.store, l.reads = harness.MinIOBehindCount(t, at["store"], 0)
	key := make([]byte, 128)
	_, _ = rand.Read(key)
	l.write(t, "munge.key", string(key))
	l.write(t, "hosts", hosts)
	l.write(t, "slurm.conf", fmt.Sprintf(configuration, l.dir, strings.Join(l.nodes, ",")))
	_, env := harness.Python(t)
	l.env = append(env, "SLURM_CONF="+l.file("slurm.conf"))
	socket := l.file("munge.socket")
	munge := l.start(t, l.control, "munged", "--foreground", "--force", "--key-file", l.file("munge.key"), "--socket", socket,
		"--pid-file", l.file("munge.pid"), "--log-file", l.file("munge.log"), "--seed-file", l.file("munge.seed"))
	munge.Ready(t, func(context.Context) error { _, err := os.Stat(socket); return err })
	control := l.start(t, l.control, "slurmctld", "-D")
	for _, name := range l.nodes {
		l.start(t, at[name], "slurmd", "-D")
	}
	control.Ready(t, func(context.Context) error {
		out, err := l.command(t, "sinfo", "--noheader", "--format=%D %t")
		if err == nil && strings.TrimSpace(out) != fmt.Sprintf("%d idle", machines) {
			err = fmt.Errorf("sinfo: %s", out)
		}
		return err
	})
	return l
}

func (l *lab) file(name string) string { return filepath.Join(l.dir, name) }

func (l *lab) write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(l.file(name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// machine is a script that turns a process into a machine, with a host name, a hosts file and its
// own processes. The remaining shell takes the place of init, and waits for orphans.
const machine = `mount --bind "$0" /etc/hosts && hostname "$1" && shift && PATH=$PATH:/usr/sbin && "$@" & wait`

// start starts a daemon as the first process of a machine.
func (l *lab) start(t *testing.T, at *harness.Node, command ...string) *harness.Process {
	t.Helper()
	args := []string{"--mount", "--uts", "--pid", "--fork", "--kill-child", "--mount-proc", "bash", "-c", machine, l.file("hosts"), at.Name}
	return harness.StartAt(t, at, command[0]+" on "+at.Name, "unshare", l.env, append(args, command...)...)
}

// command runs one of Slurm's commands on the controller, in the directory of the cluster.
func (l *lab) command(t *testing.T, command ...string) (string, error) {
	t.Helper()
	args := []string{"--mount", "--uts", "bash", "-c", strings.TrimSuffix(machine, " & wait"), l.file("hosts"), "control"}
	cmd := exec.CommandContext(t.Context(), "unshare", append(args, command...)...)
	cmd.Env, cmd.Dir = l.env, l.dir
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	err := l.control.Do(cmd.Start)
	if err == nil {
		err = cmd.Wait()
	}
	if err != nil {
		err = fmt.Errorf("%s: %w: %s", strings.Join(command, " "), err, out.String())
	}
	return strings.TrimSpace(out.String()), err
}

// submit submits a script of deploy/slurm with additional environment variables, and returns the
// job's ID. args are options of sbatch, the script's name, and the script's arguments.
func (l *lab) submit(t *testing.T, env []string, args ...string) string {
	t.Helper()
	script := slices.IndexFunc(args, func(a string) bool { return strings.HasSuffix(a, ".sbatch") })
	path, err := filepath.Abs(filepath.Join("../../deploy/slurm", args[script]))
	if err != nil {
		t.Fatal(err)
	}
	args = slices.Clone(args)
	args[script] = path
	command := append([]string{"env"}, append(l.store.Env, env...)...)
	id, err := l.command(t, append(append(command, "sbatch", "--parsable", "--no-requeue"), args...)...)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// ended waits until no process of a job remains, and returns the job's state and the exit code of
// its script, such as COMPLETED 0:0. For an array it returns one line per task.
func (l *lab) ended(t *testing.T, id string) string {
	t.Helper()
	for begin := time.Now(); time.Since(begin) < 2*time.Minute; time.Sleep(100 * time.Millisecond) {
		out, err := l.command(t, "scontrol", "--oneliner", "show", "job", id)
		if err != nil {
			t.Fatal(err)
		}
		var states []string
		for line := range strings.Lines(out) {
			fields := map[string]string{}
			for _, f := range strings.Fields(line) {
				k, v, _ := strings.Cut(f, "=")
				fields[k] = v
			}
			states = append(states, fields["JobState"]+" "+fields["ExitCode"])
		}
		if all := strings.Join(states, "\n"); !strings.Contains(all, "PENDING") && !strings.Contains(all, "RUNNING") && !strings.Contains(all, "COMPLETING") {
			return all
		}
	}
	out, err := l.command(t, "scontrol", "show", "job", id)
	t.Fatalf("job %s has not ended after two minutes: %s, %v\n%s", id, out, err, l.logs(t))
	return ""
}

// logs returns the output of jobs.
func (l *lab) logs(t *testing.T) string {
	t.Helper()
	var all strings.Builder
	names, err := filepath.Glob(l.file("*-*.*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if strings.HasSuffix(name, ".out") || strings.HasSuffix(name, ".log") {
			text, err := os.ReadFile(name)
			fmt.Fprintf(&all, "%s: %s %v\n", filepath.Base(name), text, err)
		}
	}
	return all.String()
}
