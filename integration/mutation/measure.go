package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// engine is part of each digest, so that results of another version of the engine are not resumed.
const engine = "2"

// results holds the known verdicts of a package, in bin/mutation-PACKAGE.json.
type results struct {
	Digest   string
	Tests    []test
	Verdicts map[string]verdict // by the name of the mutant

	path  string
	saved time.Time
}

// resume reads the results of a package, or starts new ones if its sources or tests have changed.
func resume(root string, t target) (*results, error) {
	digest := sha256.New()
	fmt.Fprintln(digest, engine, t)
	dir := filepath.Join(root, filepath.FromSlash(t.path))
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			if err == nil && path != dir && filepath.Dir(path) == dir && d.Name() != "testdata" {
				return fs.SkipDir // another package
			}
			return err
		}
		if filepath.Dir(path) == dir && filepath.Ext(path) != ".go" {
			return nil // a killed run may have left it
		}
		text, err := os.ReadFile(path)
		fmt.Fprintf(digest, "%s %d %x\n", path[len(root):], len(text), sha256.Sum256(text))
		return err
	})
	if err != nil {
		return nil, err
	}
	r := &results{path: filepath.Join(root, "bin", "mutation-"+strings.ReplaceAll(t.path, "/", "-")+".json")}
	want := hex.EncodeToString(digest.Sum(nil))
	if text, err := os.ReadFile(r.path); err == nil && json.Unmarshal(text, r) == nil && r.Digest == want {
		return r, nil
	}
	*r = results{Digest: want, Verdicts: map[string]verdict{}, path: r.path}
	return r, os.MkdirAll(filepath.Dir(r.path), 0o755)
}

// save writes the results. Unless last is set, it skips a write soon after the previous one.
func (r *results) save(last bool) error {
	if !last && time.Since(r.saved) < 2*time.Second {
		return nil
	}
	r.saved = time.Now()
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	if err := os.WriteFile(r.path+".new", text, 0o644); err != nil {
		return err
	}
	return os.Rename(r.path+".new", r.path)
}

// measure judges the mutants of a package and reports them. ok is false if the score decreased, or
// if a new mutant survives.
func measure(o *options, t target) (ok bool, err error) {
	committed, err := readScore(o.root, t.path)
	if err != nil {
		return false, err
	}
	rev, changed := o.diff, map[string]map[int]bool(nil)
	if rev == "scores" {
		rev = committed.Commit
	}
	if o.diff != "" {
		if rev == "" {
			return true, nil // without an earlier score the score cannot decrease
		}
		if changed, err = changedLines(o.root, rev, t.path); err != nil || len(changed) == 0 {
			return err == nil, err
		}
	}
	s, err := load(o.root, "./"+t.path)
	if err != nil {
		return false, err
	}
	all, _ := mutate(s)
	all = slices.DeleteFunc(all, func(m mutant) bool { return t.drops && m.op != dropped })
	chosen := slices.DeleteFunc(slices.Clone(all), func(m mutant) bool {
		return changed != nil && !changed[m.file][m.line] || !strings.Contains(m.name, o.match) ||
			o.survivors && committed.reason(m.name) == ""
	})
	r, err := resume(o.root, t)
	if err != nil {
		return false, err
	}
	left, err := judge(o, t, s, r, chosen)
	if err != nil {
		return false, err
	}
	return report(o, t, r, all, chosen, left, committed)
}

// judge judges the mutants without a known verdict, and returns the number of mutants that it left
// out.
func judge(o *options, t target, s *source, r *results, chosen []mutant) (left int, err error) {
	unknown := slices.DeleteFunc(slices.Clone(chosen), func(m mutant) bool { return r.Verdicts[m.name].Result != "" && !o.survivors })
	if len(unknown) == 0 {
		return 0, nil
	}
	show := newProgress(t.path)
	defer show.end()
	show.line("compiles")
	dir, err := os.MkdirTemp("", "mutation")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	b, err := build(o.root, dir, s)
	if err != nil {
		return 0, err
	}
	if r.Tests == nil {
		if r.Tests, err = b.tests(t.slow, func(n, all int) { show.line("test %d/%d without a mutant", n, all) }); err != nil {
			return 0, err
		}
	}
	if o.limit > 0 && len(unknown) > o.limit {
		left, unknown = len(unknown)-o.limit, unknown[:o.limit]
	}
	queue := make(chan mutant)
	go func() {
		defer close(queue)
		for _, m := range unknown {
			queue <- m
		}
	}()
	var lock sync.Mutex
	var workers sync.WaitGroup
	done, counts := 0, map[string]int{}
	for range o.jobs {
		workers.Go(func() {
			for m := range queue {
				var v verdict
				late := !o.end.IsZero() && time.Now().After(o.end)
				if !late {
					v = b.judge(m, r.Tests)
				}
				lock.Lock()
				if done++; late {
					left++
				} else {
					r.Verdicts[m.name] = v
					counts[v.Result]++
				}
				if e := r.save(false); e != nil {
					err = e
				}
				show.mutants(done, len(unknown), counts)
				lock.Unlock()
			}
		})
	}
	workers.Wait()
	return left, errors.Join(err, r.save(true))
}
