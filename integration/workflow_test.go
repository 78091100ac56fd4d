package integration_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// TestWorkflows_RunTargetsOfTheMakefile checks that workflows run make targets, and pin the actions
// of others by commit, since a tag can move.
func TestWorkflows_RunTargetsOfTheMakefile(t *testing.T) {
	makefile, err := os.ReadFile("../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob("../.github/workflows/*.yml")
	if err != nil || len(files) == 0 {
		t.Fatalf("got %q, %v, want workflows", files, err)
	}
	run := map[string]bool{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var workflow struct {
			Jobs map[string]struct {
				Steps []struct{ Uses, Run string }
			}
		}
		if err := yaml.Unmarshal(text, &workflow); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		for name, job := range workflow.Jobs {
			for _, step := range job.Steps {
				if step.Uses != "" && !regexp.MustCompile(`^\S+@[0-9a-f]{40}$`).MatchString(step.Uses) {
					t.Errorf("%s: %s: uses %s, want a commit", file, name, step.Uses)
				}
				if target, ok := strings.CutPrefix(step.Run, "make "); ok {
					run[target] = true
				}
			}
		}
	}
	for target := range run {
		if !strings.Contains(string(makefile), "\n"+target+": ## ") {
			t.Errorf("the Makefile has no target %s", target)
		}
	}
	for _, target := range []string{"vulncheck", "pin-images"} {
		if !run[target] {
			t.Errorf("no workflow runs make %s", target)
		}
	}
}
