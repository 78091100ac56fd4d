// Command experiments tests published ideas, and generates docs/dev/experiments.md from the stored
// results. One file for each published system states claim, setting, arms and marks before it runs.
package main

import (
	"bytes"
	"context"
	"errors"
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

	"github.com/millrace-data/millrace/integration/experiments/datasets"
	"github.com/millrace-data/millrace/integration/experiments/lab"
	"github.com/millrace-data/millrace/integration/provenance"
)

// all lists the experiments at full size, in the order of the page.
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
		costs(fullCosts()),
		ranks(),
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

// store is the directory of the page's data, relative to the root of the repository.
const store = "integration/experiments/figures"

type options struct {
	only, out, page    string
	fetch, list, check bool
}

func run(ctx context.Context, args []string, log io.Writer) error {
	var o options
	f := flag.NewFlagSet("experiments", flag.ContinueOnError)
	f.SetOutput(log)
	f.StringVar(&o.only, "only", "", "run only these, by `names` with commas between them")
	f.StringVar(&o.out, "out", "", "store what each experiment finds in this `directory` of the repository, in place of what it found before")
	f.StringVar(&o.page, "page", "", "run nothing: make this `file` of what is stored, and its pictures beside it")
	f.BoolVar(&o.check, "check", false, "run nothing: fail if stored figures are older than their sources")
	f.BoolVar(&o.fetch, "fetch", false, "only fetch the real data sets into the user's cache directory")
	f.BoolVar(&o.list, "list", false, "only list the experiments")
	if err := f.Parse(args); err != nil {
		return err
	}
	switch {
	case o.fetch:
		return datasets.Fetch(ctx, log)
	case o.page != "" || o.check:
		return publish(o.page, o.check)
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
	return o.do(ctx, chosen, strings.Join(append([]string{"experiments"}, args...), " "), log)
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

// do runs the experiments one after another, logs the progress, and stores the findings of each.
func (o options) do(ctx context.Context, chosen []lab.Experiment, command string, log io.Writer) error {
	begun := time.Now()
	for i, e := range chosen {
		fmt.Fprintf(log, "\n%s  experiment %d of %d, %s since the start\n", time.Now().Format(time.TimeOnly), i+1, len(chosen), time.Since(begun).Round(time.Second))
		run, err := provenance.Begin(command)
		if err != nil {
			return err
		}
		r, err := lab.Run(ctx, e, log)
		if err != nil {
			return err
		}
		if r.Measured, err = run.Of(ctx, sources(e.Name)); err != nil {
			return err
		}
		if o.out != "" {
			if err := provenance.Write(filepath.Join(run.Root, o.out, e.Name+".json"), r); err != nil {
				return err
			}
		}
		runtime.GC() // collect the garbage of one experiment before the next one
	}
	fmt.Fprintf(log, "\nall of them took %s\n", time.Since(begun).Round(time.Second))
	return nil
}

// sources returns the files and directories that an experiment measures, and those that measure it.
func sources(name string) []string {
	files := []string{name + ".go", "data.go", "read.go"}
	all := []string{"chunkindex", "datapath", "internal", "shuffle", "internal/testing/shaped"}
	switch name {
	case "brand", "locality", "shade":
		files = append(files, "published")
	case "caches":
		files = append(files, "replay")
	case "costs":
		return []string{"shuffle", "integration/experiments/costs.go", "integration/experiments/costs_tables.go", "integration/experiments/published", "integration/experiments/datasets"}
	case "ranks":
		return []string{"shuffle", "integration/python/balanced.py", "integration/experiments/ranks.go"}
	case "learn":
		files = append(files, "train")
	case "diesel":
		files = append(files, "sorted.go", "train")
	case "nodes", "tasks", "simulate":
		files, all = append(files, "fleet.go"), append(all, "cluster")
	case "losses":
		return append(all, "cluster", "gateway", "client", "integration/clustersim", "integration/experiments/losses.go")
	case "links":
		return append(all, "cluster", "gateway", "client", "cmd/millrace", "s3backend", "integration/clustersim", "integration/limited", "integration/experiments/links.go")
	}
	for _, f := range files {
		all = append(all, "integration/experiments/"+f)
	}
	return all
}

// storedPage reads the findings of all experiments.
func storedPage(root string) (*lab.Page, error) {
	found, err := provenance.Read[*lab.Report](filepath.Join(root, store))
	if err != nil {
		return nil, err
	}
	page := &lab.Page{Root: root, Plots: "experiments", Older: map[string]bool{}}
	for _, e := range all() {
		page.Changes += e.Changes()
		i := slices.IndexFunc(found, func(r *lab.Report) bool { return r.Name == e.Name })
		if i < 0 {
			return nil, fmt.Errorf("experiment %s was never run", e.Name)
		}
		older, err := found[i].Measured.Older(root)
		if err != nil {
			return nil, err
		}
		page.Older[e.Name] = older || !found[i].Judged(e)
		page.Reports = append(page.Reports, found[i])
	}
	return page, nil
}

// publish generates the page and its pictures. With check it generates nothing; it returns an error
// if figures are older than their sources or marks.
func publish(file string, check bool) error {
	root, err := provenance.Root()
	if err != nil {
		return err
	}
	page, err := storedPage(root)
	if err != nil {
		return err
	}
	if check {
		for _, r := range page.Reports {
			if page.Older[r.Name] {
				err = errors.Join(err, fmt.Errorf("experiment %s is older than its sources or its marks: run it again", r.Name))
			}
		}
		return err
	}
	pictures, err := draw(page)
	if err != nil {
		return err
	}
	plots := filepath.Join(filepath.Dir(file), page.Plots)
	if err := os.MkdirAll(plots, 0o755); err != nil {
		return err
	}
	for name, picture := range pictures {
		if err := os.WriteFile(filepath.Join(plots, name), picture, 0o644); err != nil {
			return err
		}
	}
	return os.WriteFile(file, []byte(page.Markdown()), 0o644)
}

// draw draws the pictures of a page, by file name.
func draw(page *lab.Page) (map[string][]byte, error) {
	pictures := map[string][]byte{}
	for _, r := range page.Reports {
		for _, i := range r.Items {
			if i.Figure == nil || !i.Figure.Drawn() {
				continue
			}
			var b bytes.Buffer
			if err := i.Figure.Draw(&b); err != nil {
				return nil, err
			}
			pictures[r.File(i.Figure)] = b.Bytes()
		}
	}
	return pictures, nil
}
