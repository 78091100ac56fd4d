package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// score is the committed result of a package, in scores/PACKAGE.json.
type score struct {
	Package   string     `json:"package"`
	Commit    string     `json:"commit"`
	Sample    int        `json:"sample,omitempty"` // one of this many mutants is judged
	Operators counts     `json:"operators"`
	Drops     counts     `json:"dropped_statements"`
	Survivors []survivor `json:"survivors"`
}

// counts holds the number of a package's mutants by result. Equivalent mutants count only as
// equivalent.
type counts struct {
	Killed     int `json:"killed"`
	Lived      int `json:"lived"`
	Uncovered  int `json:"uncovered"`
	Equivalent int `json:"equivalent"`
}

// survivor is a mutant that no test kills, with a reason: "equivalent: ..." if no test can kill it,
// otherwise "lives: ...".
type survivor struct {
	Mutant string `json:"mutant"`
	Reason string `json:"reason"`
}

const (
	equivalent  = "equivalent: "
	lives       = "lives: "
	notExamined = lives + "not examined"
	notReached  = lives + "no test of the package reaches it"
)

func scorePath(root, pkg string) string {
	return filepath.Join(root, "integration", "mutation", "scores", strings.ReplaceAll(pkg, "/", "-")+".json")
}

// readScore reads the committed score, or returns an empty one if none exists.
func readScore(root, pkg string) (*score, error) {
	s := &score{Package: pkg}
	text, err := os.ReadFile(scorePath(root, pkg))
	if errors.Is(err, fs.ErrNotExist) {
		return s, nil
	}
	if err == nil {
		err = json.Unmarshal(text, s)
	}
	return s, err
}

// reason returns why a mutant survives, or an empty text.
func (s *score) reason(mutant string) string {
	for _, v := range s.Survivors {
		if v.Mutant == mutant {
			return v.Reason
		}
	}
	return ""
}

// count computes the score from verdicts and the committed reasons.
func count(pkg, commit string, all []mutant, verdicts map[string]verdict, committed *score) *score {
	s := &score{Package: pkg, Commit: commit, Survivors: []survivor{}}
	for _, m := range all {
		c := &s.Operators
		if m.op == dropped {
			c = &s.Drops
		}
		v, known := verdicts[m.name]
		if !known {
			continue
		}
		if v.Result == killed {
			c.Killed++
			continue
		}
		reason := committed.reason(m.name)
		switch {
		case reason != "" && (reason == notReached) == (v.Result == uncovered):
		case strings.HasPrefix(reason, equivalent):
		case v.Result == uncovered:
			reason = notReached
		default:
			reason = notExamined
		}
		switch {
		case strings.HasPrefix(reason, equivalent):
			c.Equivalent++
		case v.Result == uncovered:
			c.Uncovered++
		default:
			c.Lived++
		}
		s.Survivors = append(s.Survivors, survivor{m.name, reason})
	}
	return s
}

func (c counts) judged() int { return c.Killed + c.Lived + c.Uncovered }

// percent returns the percentage of judged mutants that were killed; 100 if there are none.
func (c counts) percent() float64 {
	if c.judged() == 0 {
		return 100
	}
	return 100 * float64(c.Killed) / float64(c.judged())
}

func (c counts) String() string {
	return fmt.Sprintf("%d killed, %d lived, %d uncovered, %d equivalent: %.1f %%", c.Killed, c.Lived, c.Uncovered, c.Equivalent, c.percent())
}

func (s *score) write(root string) error {
	var text strings.Builder
	encoder := json.NewEncoder(&text)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(s); err != nil {
		return err
	}
	if err := os.WriteFile(scorePath(root, s.Package), []byte(text.String()), 0o644); err != nil {
		return err
	}
	return writePage(root)
}
