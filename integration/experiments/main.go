// Command experiments puts published ideas to the test and writes docs/experiments.md: one
// file for each system, which states claim, setting, arms and marks before it runs.
package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/millrace-data/millrace/integration/experiments/images"
	"github.com/millrace-data/millrace/integration/experiments/lab"
	"github.com/millrace-data/millrace/internal/testing/provenance"
)

// all lists the experiments in the order of the page, at their full size.
func all() []lab.Experiment {
	return []lab.Experiment{
		brand(fullBrand()),
		shade(fullShade()),
		caches(fullCaches()),
		learn(fullLearn()),
		lobster(fullLobster()),
		diesel(fullDiesel()),
		nopfs(fullNopfs()),
		nodes(fullNodes()),
		tasks(fullTasks()),
		losses(),
		links(),
		locality(fullLocality()),
		simulated(fullSimulate()),
	}
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "experiments:", err)
		os.Exit(1)
	}
}

type options struct {
	only, out, plots string
	fetch, list      bool
}

func run(ctx context.Context, args []string, log io.Writer) error {
	var o options
	f := flag.NewFlagSet("experiments", flag.ContinueOnError)
	f.SetOutput(log)
	f.StringVar(&o.only, "only", "", "run only these, by `names` with commas between them")
	f.StringVar(&o.out, "out", "", "write the page to this `file`; with -only renew these sections of it")
	f.StringVar(&o.plots, "plots", "", "write the pictures into this `directory`")
	f.BoolVar(&o.fetch, "fetch", false, "only fetch the image data sets into the user's cache directory")
	f.BoolVar(&o.list, "list", false, "only list the experiments")
	if err := f.Parse(args); err != nil {
		return err
	}
	if o.fetch {
		return images.Fetch(ctx, log)
	}
	chosen, err := choose(o.only)
	if err != nil {
		return err
	}
	if o.list {
		for _, e := range chosen {
			fmt.Printf("%-10s %s\n", e.Name, e.Title)
		}
		return nil
	}
	var was []byte
	if o.out != "" && o.only != "" {
		if was, err = os.ReadFile(o.out); err != nil {
			return fmt.Errorf("-only with -out renews sections of a page: %w", err)
		}
	}
	page, err := o.do(ctx, chosen, log)
	if err != nil || o.out == "" {
		return err
	}
	text := page.Markdown()
	if was != nil {
		var order []string
		for _, e := range all() {
			order = append(order, e.Name)
		}
		if text, err = page.Renew(string(was), order); err != nil {
			return fmt.Errorf("%s: %w", o.out, err)
		}
	}
	return os.WriteFile(o.out, []byte(text), 0o644)
}

func choose(only string) ([]lab.Experiment, error) {
	if only == "" {
		return all(), nil
	}
	var chosen []lab.Experiment
	for name := range strings.SplitSeq(only, ",") {
		i := slices.IndexFunc(all(), func(e lab.Experiment) bool { return e.Name == strings.TrimSpace(name) })
		if i < 0 {
			return nil, fmt.Errorf("no experiment %q: see -list", name)
		}
		chosen = append(chosen, all()[i])
	}
	return chosen, nil
}

// do runs the experiments one after the other, telling log where they are, and draws what they found.
func (o options) do(ctx context.Context, chosen []lab.Experiment, log io.Writer) (*lab.Page, error) {
	run, err := provenance.Begin("experiments")
	if err != nil {
		return nil, err
	}
	m, err := run.Of(ctx, []string{"datapath"})
	if err != nil {
		return nil, err
	}
	page := &lab.Page{Machine: m.Machine.String(), Commit: m.Commit, Date: time.Now().UTC()}
	begun := time.Now()
	for i, e := range chosen {
		fmt.Fprintf(log, "\n%s  experiment %d of %d, %s since the start\n", time.Now().Format(time.TimeOnly), i+1, len(chosen), time.Since(begun).Round(time.Second))
		r, err := lab.Run(ctx, e, log)
		if err != nil {
			return nil, err
		}
		page.Reports = append(page.Reports, r)
		if err := o.draw(r); err != nil {
			return nil, err
		}
		runtime.GC() // what one experiment leaves must not be collected in the middle of the next
	}
	fmt.Fprintf(log, "\nall of them took %s\n", time.Since(begun).Round(time.Second))
	if rel, err := filepath.Rel(filepath.Dir(o.out), o.plots); err == nil && o.plots != "" {
		page.Plots = filepath.ToSlash(rel)
	}
	return page, nil
}

// draw writes the pictures of one report.
func (o options) draw(r *lab.Report) error {
	if o.plots == "" {
		return nil
	}
	if err := os.MkdirAll(o.plots, 0o755); err != nil {
		return err
	}
	for _, item := range r.Items {
		f, ok := item.(*lab.Figure)
		if !ok {
			continue
		}
		var b bytes.Buffer
		if err := f.Draw(&b); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(o.plots, r.File(f)), b.Bytes(), 0o644); err != nil {
			return err
		}
	}
	return nil
}
