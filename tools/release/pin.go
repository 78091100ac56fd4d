package main

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// pinImages looks up the base images of Dockerfiles in their registries, and appends their digests
// to the tags: NAME:TAG@sha256:... Builds then use these bytes even if a tag moves. If any image is
// missing, it changes no file.
func pinImages(files ...string) error {
	texts := make([]string, len(files))
	var faults []error
	for i, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		// A name without a slash is an earlier stage of the same file.
		image := regexp.MustCompile(`(?m)^(FROM )(\S+/\S+?)(@sha256:[0-9a-f]{64})?( AS \S+)?$`)
		texts[i] = image.ReplaceAllStringFunc(string(text), func(line string) string {
			parts := image.FindStringSubmatch(line)
			digest, err := digestOf(parts[2])
			if err != nil {
				faults = append(faults, fmt.Errorf("%s: %w", file, err))
				return line
			}
			return strings.Join([]string{parts[1], parts[2], "@", digest, parts[4]}, "")
		})
	}
	if err := errors.Join(faults...); err != nil {
		return err
	}
	for i, file := range files {
		if err := os.WriteFile(file, []byte(texts[i]), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// digestOf returns the digest of an image in a registry. It prefers the digest of the index of all
// platforms.
func digestOf(image string) (string, error) {
	ref, err := name.ParseReference(image)
	if err != nil {
		return "", err
	}
	found, err := remote.Head(ref)
	if err != nil {
		return "", err
	}
	return found.Digest.String(), nil
}
