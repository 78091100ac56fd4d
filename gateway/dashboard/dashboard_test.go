package dashboard_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/millrace-data/millrace/gateway/dashboard"
)

const (
	mostBytes  = 230 << 10 // size of the whole page
	mostPacked = 100 << 10 // size of the whole page, compressed by gzip
	mostLines  = 600
)

func TestPage_IsSmall(t *testing.T) {
	page, err := dashboard.New()
	if err != nil {
		t.Fatal(err)
	}
	sum, packed := 0, 0
	for name, f := range page {
		if name != "license-of-uplot.txt" { // no view loads it
			sum, packed = sum+len(f.Content), packed+len(f.Gzip)
		}
		if lines := strings.Count(string(f.Content), "\n"); lines > mostLines {
			t.Errorf("%s: got %d lines, want at most %d", name, lines, mostLines)
		}
	}
	t.Logf("figure: the page has %d bytes in %d files, %d as browsers get them", sum, len(page)-1, packed)
	if sum > mostBytes || packed > mostPacked {
		t.Errorf("got a page of %d bytes, %d of them sent, want at most %d and %d", sum, packed, mostBytes, mostPacked)
	}
}

// TestPage_ReferencesResolve checks that every referenced file exists, and that every file is referenced.
func TestPage_ReferencesResolve(t *testing.T) {
	page, err := dashboard.New()
	if err != nil {
		t.Fatal(err)
	}
	reference := regexp.MustCompile(`(?:src="page/|href="page/|from "\./|import\("\./)([a-z-]+\.(?:js|css|svg))`)
	named := map[string]bool{dashboard.Start: true, "license-of-uplot.txt": true}
	for name, f := range page {
		if name == "uplot.js" {
			continue
		}
		for _, match := range reference.FindAllStringSubmatch(string(f.Content), -1) {
			named[match[1]] = true
			if _, ok := page[match[1]]; !ok {
				t.Errorf("%s refers to %s, which does not exist", name, match[1])
			}
		}
	}
	for name := range page {
		if !named[name] {
			t.Errorf("no file of the page refers to %s", name)
		}
	}
}

// TestPage_AvoidsMarkupFromText checks that the page's scripts never convert text into HTML or
// code. The policy also forbids it; this test reports the line.
func TestPage_AvoidsMarkupFromText(t *testing.T) {
	page, err := dashboard.New()
	if err != nil {
		t.Fatal(err)
	}
	dangerous := regexp.MustCompile(`innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|setTimeout\("|srcdoc|javascript:`)
	for name, f := range page {
		if !strings.HasSuffix(name, ".js") || name == "uplot.js" {
			continue
		}
		for i, line := range strings.Split(string(f.Content), "\n") {
			if dangerous.MatchString(line) {
				t.Errorf("%s:%d: %s", name, i+1, line)
			}
		}
	}
	if html := string(page[dashboard.Start].Content); regexp.MustCompile(`<script[^>]*>[^<]|<style| style=| on[a-z]+=`).MatchString(html) {
		t.Errorf("%s has inline scripts or styles, which the policy forbids", dashboard.Start)
	}
}
