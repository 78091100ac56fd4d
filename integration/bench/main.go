// Command bench measures Millrace against yardsticks. It stores the results as rows, and generates
// docs/benchmarks.md and its chart from them.
//
// Absolute speed on a shared machine varies by a factor of two within an hour, so no mark depends
// on it. Each goal is the ratio of two arms that run alternately, several times, in one process. A
// mark applies to the median of the paired ratios; the page prints the spread next to it. The
// gateway is the real binary, as a child process. MinIO and the bare handlers that the gateway is
// compared with are child processes too.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/millrace-data/millrace/integration/provenance"
)

// options holds the command line.
type options struct {
	goals       string
	rounds      int
	quick       bool
	gateway     string // the binary
	minio       string
	nginx       string
	wire        string // binary of integration/bench/wire
	interpreter string // of Python
	out         string
	page        string
	check       bool
	section     string
	command     string
	load        float64
	profile     string
	dir         string
	mib         int64
	span        time.Duration // duration of one warm arm
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if len(os.Args) > 1 && os.Args[1] == "yardstick" {
		if err := yardstick(ctx, os.Args[2:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	if err := run(ctx, os.Args[1:], os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func parse(args []string) (options, error) {
	var o options
	cache := os.Getenv("XDG_CACHE_HOME")
	if cache == "" {
		cache = filepath.Join(os.Getenv("HOME"), ".cache")
	}
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	f.StringVar(&o.goals, "goals", "1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18", "goals to measure")
	f.IntVar(&o.rounds, "rounds", 7, "rounds of alternating arms")
	f.BoolVar(&o.quick, "quick", false, "little data and few rounds: shows that everything runs, measures nothing")
	f.StringVar(&o.gateway, "gateway", "bin/millrace", "the gateway's `binary`")
	f.StringVar(&o.minio, "minio", filepath.Join(cache, "millrace", "bin", "minio"), "MinIO's `binary`")
	f.StringVar(&o.nginx, "nginx", "nginx", "nginx's `binary`, for goals 1 to 3")
	f.StringVar(&o.wire, "wire", "bin/wire", "the `binary` of integration/bench/wire, for goal 10")
	f.StringVar(&o.interpreter, "python", "python3", "Python `interpreter` with boto3, NumPy and torch, for goals 10 and 18")
	f.StringVar(&o.out, "out", "", "store the rows of each goal in this `directory` of the repository, in place of its rows there")
	f.StringVar(&o.page, "page", "", "measure nothing: make this `file` of the stored rows, and its chart beside it")
	f.BoolVar(&o.check, "check", false, "measure nothing: fail if a stored row is older than its sources")
	f.StringVar(&o.section, "section", "", "measure nothing: store standard input, in markdown, as this section of the page (`name`)")
	f.StringVar(&o.command, "command", "", "what measured the section")
	f.Float64Var(&o.load, "load", -1, "load of the machine before that")
	f.StringVar(&o.profile, "profile", "", "write CPU profiles of the warm gateway into this `directory`")
	f.StringVar(&o.dir, "dir", "", "where the data lies while this runs (default a temporary directory)")
	f.Int64Var(&o.mib, "mib", 512, "size of each dataset in MiB")
	f.DurationVar(&o.span, "span", 800*time.Millisecond, "duration of one warm arm")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	if o.quick {
		o.rounds, o.mib, o.span = min(o.rounds, 3), min(o.mib, 128), 200*time.Millisecond
	}
	if o.quick && o.out != "" {
		return o, fmt.Errorf("-quick measures nothing: it stores no rows")
	}
	if f.NArg() > 0 || o.rounds < 1 || o.mib < 64 {
		return o, fmt.Errorf("want no arguments, at least one round and 64 MiB")
	}
	return o, nil
}

// wants reports whether one of the goals was selected.
func (o options) wants(goals ...int) bool {
	for word := range strings.SplitSeq(o.goals, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(word))
		for _, g := range goals {
			if err == nil && n == g {
				return true
			}
		}
	}
	return false
}

// suite holds the state that all measurements of a run share.
type suite struct {
	options
	log   io.Writer
	table table
	world *world
}

func (s *suite) logf(format string, args ...any) {
	fmt.Fprintf(s.log, "%s "+format+"\n", append([]any{time.Now().Format(time.TimeOnly)}, args...)...)
}

func run(ctx context.Context, args []string, log io.Writer) error {
	o, err := parse(args)
	if err != nil {
		return err
	}
	switch {
	case o.section != "":
		return section(ctx, o.section, o.command, o.load, os.Stdin)
	case o.page != "" || o.check:
		return publish(o.page, o.check)
	}
	run, err := provenance.Begin(commandOf(args))
	if err != nil {
		return err
	}
	if o.out != "" { // rows describe the tree, so the gateway must be built from it
		if out, err := exec.CommandContext(ctx, "go", "build", "-o", o.gateway, "./cmd/millrace").CombinedOutput(); err != nil {
			return fmt.Errorf("build %s: %w: %s", o.gateway, err, out)
		}
	}
	s := &suite{options: o, log: log, table: table{}}
	if o.dir == "" {
		if s.dir, err = os.MkdirTemp("", "millrace-bench-"); err != nil {
			return err
		}
		defer os.RemoveAll(s.dir) // a temporary directory
	}
	if o.wants(9) {
		if err := s.plans(); err != nil {
			return err
		}
	}
	if o.wants(5) {
		if err := s.shaped(ctx); err != nil {
			return fmt.Errorf("shaped store: %w", err)
		}
	}
	if o.wants(14, 15) {
		if err := s.planAware(ctx); err != nil {
			return fmt.Errorf("shaped store, plan-aware: %w", err)
		}
	}
	if o.wants(1, 2, 3, 4, 6, 7, 8, 10, 11, 12, 13, 16, 17, 18) {
		if err := s.real(ctx); err != nil {
			return err
		}
	}
	fmt.Fprint(log, tableHead)
	for _, goal := range slices.Sorted(maps.Keys(s.table)) {
		for _, r := range s.table[goal] {
			fmt.Fprint(log, r.line(goal, false))
		}
	}
	if o.out == "" {
		return nil
	}
	return s.store(ctx, run)
}

// real runs the measurements that need MinIO and the gateway's binary.
func (s *suite) real(ctx context.Context) (err error) {
	s.logf("starting MinIO and writing 2 x %d MiB", s.mib)
	s.world, err = newWorld(ctx, s.options)
	defer s.world.close()
	if err != nil {
		return err
	}
	steps := []struct {
		goals []int
		do    func(context.Context) error
	}{
		{[]int{1, 2, 3, 11, 12}, s.warm},
		{[]int{4, 11}, s.cold},
		{[]int{6, 7}, s.perSample},
		{[]int{8}, s.memory},
		{[]int{10}, s.python},
		{[]int{13}, s.tiers},
		{[]int{16}, s.peers},
		{[]int{17}, s.warmTLS},
		{[]int{18}, s.shared},
	}
	for _, step := range steps {
		if s.wants(step.goals...) {
			if err := step.do(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

// commandOf returns the command line without the paths of this machine.
func commandOf(args []string) string {
	said := []string{"bench"}
	for i := 0; i < len(args); i++ {
		switch strings.TrimLeft(args[i], "-") {
		case "dir", "gateway", "minio", "nginx", "out", "python", "wire":
			i++
		default:
			said = append(said, args[i])
		}
	}
	return strings.Join(said, " ")
}
