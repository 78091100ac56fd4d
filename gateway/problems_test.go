package gateway

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestErrorsPage_StatesMeaningOfEachCode compares docs/errors.md, to which the type of a problem
// links, with the codes. Its table and the first paragraph of each section are generated.
func TestErrorsPage_StatesMeaningOfEachCode(t *testing.T) {
	source, err := os.ReadFile("errors.go")
	if err != nil {
		t.Fatal(err)
	}
	const name = "../docs/errors.md"
	page, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	codes := map[string]code{}
	for _, c := range []code{
		codeInvalid, codeNotFound, codeEndOfEpoch, codeGenerationGone, codeUnauthenticated, codeForbidden, codeMisdirected, codeMediaType,
		codeTooManyRequests, codeAudit, codeIssuer, codeMethodNotAllowed, codeNotImplemented, codePrecondition, codeURITooLong, codeNotAcceptable,
		codeTooLarge, codeTimeout, codeConflict, codeTooManyEpochs, codeReloadRefused, codeAmbiguousKey, codeReadOnly, codeRange, codeBatchTooLarge,
		codeOverloaded, codeDraining, codeStarting, codeStoreUnavailable, codeStoreTimeout, codeStoreInconsistent, codeStoreDenied, codeInternal,
	} {
		codes[c.name] = c
	}
	for _, m := range regexp.MustCompile(`= code\{"(\w+)"`).FindAllStringSubmatch(string(source), -1) {
		if codes[m[1]].name == "" {
			t.Errorf("this test lacks the code %s of errors.go", m[1])
		}
	}
	sections := strings.Split(string(page), "\n## ")
	intro, _, _ := strings.Cut(sections[0], "| code |")
	var table, text strings.Builder
	table.WriteString("| code | status | retryable | meaning |\n|---|---|---|---|\n")
	titles := map[string]bool{}
	for _, section := range sections[1:] {
		code, rest, _ := strings.Cut(section, "\n\n")
		_, rest, explained := strings.Cut(rest, "\n\n")
		m, retryable := codes[code], "no"
		if m.title == "" || titles[m.title] || !explained {
			t.Errorf("%s: section %q (%+v): want one section of each code, with a title of its own and an explanation", name, code, m)
		}
		delete(codes, code)
		titles[m.title] = true
		if m.retryable {
			retryable = "yes"
		}
		fmt.Fprintf(&table, "| [`%s`](#%s) | %d | %s | %s |\n", code, code, m.status, retryable, m.title)
		fmt.Fprintf(&text, "\n## %s\n\n%s. Status %d, retryable: %s.\n\n%s", code, m.title, m.status, retryable, strings.TrimRight(rest, "\n")+"\n")
	}
	for code := range codes {
		t.Errorf("%s: no section %q", name, code)
	}
	want := intro + table.String() + text.String()
	if *update {
		if err := os.WriteFile(name, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if string(page) != want {
		t.Errorf("%s is not current: run go test ./gateway -run ErrorsPage -update", name)
	}
}
