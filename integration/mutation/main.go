// Command mutation measures how many small changes to the code of a package are detected by its
// unit tests.
//
// All mutants of a package are compiled into one test binary. An environment variable selects one
// of them by number. So a mutant costs one run of the tests that reach it, but no compilation.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

const usage = `usage: make mutation [PACKAGES="PACKAGE..."] [DIFF=REV] [FLAGS="FLAG..."]

Changes the code of packages in small ways and runs the tests that reach each change: at least one must fail. Without
PACKAGES all packages of integration/mutation/targets.go; PIECE=2/6 takes the second sixth of them. A run that was stopped resumes: bin/mutation-PACKAGE.json has
the results, for as long as the sources and tests of the package are the same. It fails where a score is below the
committed one, and with DIFF where a mutant lives that is not listed in integration/mutation/scores.

  make mutation PACKAGES=gateway/address                         all mutants of one package
  make mutation PACKAGES=gateway/address FLAGS=-survivors        again those that are committed as survivors
  make mutation PACKAGES=gateway/address FLAGS='-match parse.go -show'
  make mutation DIFF=main                                        mutants on lines that changed since a commit
  make mutation DIFF=scores FLAGS='-limit 200 -time 4m'          since the commit of each package's score
  make mutation PACKAGES=gateway/address FLAGS=-write            commit the score and its survivors
  make mutation FLAGS=-page                                      only write docs/dev/mutation.md

`

type options struct {
	root, diff, match            string
	write, survivors, show, page bool
	limit, jobs                  int
	time                         time.Duration
	end                          time.Time
	packages                     []string
}

func main() {
	var o options
	flag.StringVar(&o.diff, "diff", "", "only mutants on lines changed since `REV`; scores: the commit of each package's score")
	flag.StringVar(&o.match, "match", "", "only mutants whose name contains `TEXT`")
	flag.BoolVar(&o.survivors, "survivors", false, "only mutants that are committed as survivors, whatever is known of them")
	flag.BoolVar(&o.write, "write", false, "write the score, the survivors and the page; requires a committed package and a whole run")
	flag.BoolVar(&o.show, "show", false, "print how each mutant was killed")
	flag.BoolVar(&o.page, "page", false, "only write docs/dev/mutation.md")
	flag.IntVar(&o.limit, "limit", 0, "judge at most `N` mutants of a package (0: all)")
	flag.DurationVar(&o.time, "time", 0, "begin no mutant after this `DURATION` (0: no limit)")
	flag.IntVar(&o.jobs, "jobs", runtime.NumCPU(), "test processes that run at once")
	flag.Usage = func() {
		fmt.Fprint(flag.CommandLine.Output(), usage)
		flag.PrintDefaults()
	}
	flag.Parse()
	o.packages = flag.Args()
	if err := run(&o); err != nil {
		fmt.Fprintln(os.Stderr, "mutation:", err)
		os.Exit(1)
	}
}

func run(o *options) error {
	var err error
	if o.root, err = filepath.Abs("../.."); err != nil {
		return err
	}
	if o.page {
		return writePage(o.root)
	}
	if o.time > 0 {
		o.end = time.Now().Add(o.time)
	}
	chosen, err := choose(o.packages, os.Getenv("PIECE"))
	if err != nil {
		return err
	}
	var failed []string
	for _, t := range chosen {
		ok, err := measure(o, t)
		if err != nil {
			return fmt.Errorf("%s: %w", t.path, err)
		}
		if !ok {
			failed = append(failed, t.path)
		}
	}
	if len(failed) > 0 {
		return fmt.Errorf("below the committed score, or new survivors: %s", strings.Join(failed, ", "))
	}
	return nil
}
