package main

import (
	"io/fs"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestPageShowsClients compares the blocks of docs/clients.md with the files that they show.
func TestPageShowsClients(t *testing.T) {
	page, err := os.ReadFile("../../../../docs/clients.md")
	if err != nil {
		t.Fatal(err)
	}
	block := regexp.MustCompile("(?s)\\[`integration/conformance/clients/([^`]+)`\\][^\n]*\n\n```[a-z]+\n(.*?\n)```\n")
	shown := map[string]string{}
	for _, m := range block.FindAllStringSubmatch(string(page), -1) {
		shown[m[1]] = m[2]
	}
	clients := os.DirFS("..")
	files := map[string]string{}
	err = fs.WalkDir(clients, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || strings.HasSuffix(path, "_test.go") || strings.HasSuffix(path, ".pyc") {
			return err
		}
		text, err := fs.ReadFile(clients, path)
		files[path] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(files, shown); diff != "" {
		t.Errorf("docs/clients.md shows something else than the files (-files +page):\n%s", diff)
	}
}
