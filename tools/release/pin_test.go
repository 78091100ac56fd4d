package main

import (
	"io"
	"log"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// TestPinImages_WritesTheDigestsOfTheRegistry checks that moved tags get their new digests, and
// that stages remain unchanged. If an image is missing, all files remain unchanged.
func TestPinImages_WritesTheDigestsOfTheRegistry(t *testing.T) {
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	defer server.Close()
	host := strings.TrimPrefix(server.URL, "http://")
	push := func(image string) (digest string) {
		t.Helper()
		index, err := random.Index(100, 1, 2)
		if err != nil {
			t.Fatal(err)
		}
		ref, err := name.ParseReference(host + "/" + image)
		if err != nil {
			t.Fatal(err)
		}
		if err := remote.WriteIndex(ref, index); err != nil {
			t.Fatal(err)
		}
		d, err := index.Digest()
		if err != nil {
			t.Fatal(err)
		}
		return d.String()
	}
	file := filepath.Join(t.TempDir(), "Dockerfile")
	const stages = "COPY --from=build /out /out\nFROM build AS test\n"
	if err := os.WriteFile(file, []byte("FROM "+host+"/library/golang:1.26-alpine AS build\n"+stages+"FROM "+host+"/library/alpine:3.22\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := pinImages(file); err == nil {
		t.Error("images that no registry has: got no error")
	}
	alpine := push("library/alpine:3.22")
	if err := pinImages(file); err == nil {
		t.Error("an image that no registry has: got no error")
	}
	if text, _ := os.ReadFile(file); strings.Contains(string(text), "sha256") {
		t.Errorf("got %s, want the file unchanged", text)
	}
	for range 2 {
		golang := push("library/golang:1.26-alpine")
		if err := pinImages(file); err != nil {
			t.Fatal(err)
		}
		want := "FROM " + host + "/library/golang:1.26-alpine@" + golang + " AS build\n" + stages + "FROM " + host + "/library/alpine:3.22@" + alpine + "\n"
		if text, err := os.ReadFile(file); err != nil || string(text) != want {
			t.Errorf("got %s, %v, want %s", text, err, want)
		}
	}
}
