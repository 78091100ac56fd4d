package main

import (
	"bytes"
	"debug/buildinfo"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"time"

	"github.com/CycloneDX/cyclonedx-go"
	"github.com/CycloneDX/cyclonedx-gomod/pkg/generate/bin"
	"github.com/rs/zerolog"
)

// writeParts writes each program's list of modules in CycloneDX format (an SBOM).
func (r *release) writeParts() error {
	for _, p := range r.programs {
		g, err := bin.NewGenerator(p.path, bin.WithLogger(zerolog.Nop()), bin.WithIncludeStdlib(true))
		if err != nil {
			return err
		}
		bom, err := g.Generate()
		if err != nil {
			return err
		}
		bom.Metadata.Timestamp = r.time.Format(time.RFC3339)
		var out bytes.Buffer
		enc := cyclonedx.NewBOMEncoder(&out, cyclonedx.BOMFileFormatJSON)
		if err := enc.SetPretty(true).SetEscapeHTML(false).Encode(bom); err != nil {
			return err
		}
		if err := r.write(fmt.Sprintf("millrace-%s-%s-%s.cdx.json", r.version, p.system, p.arch), out.Bytes()); err != nil {
			return err
		}
	}
	return nil
}

// licenses returns the licenses of Go, of every module in the programs, and of the page's chart
// library. Most of these licenses must accompany copies.
func (r *release) licenses() ([]byte, error) {
	info, err := buildinfo.ReadFile(r.programs[0].path)
	if err != nil {
		return nil, err
	}
	root, err := r.output("go", "env", "GOROOT")
	if err != nil {
		return nil, err
	}
	dirs := []string{filepath.Join(root, "LICENSE"), filepath.Join(r.root, "gateway", "dashboard", "page")}
	names := []string{"Go " + info.GoVersion, "uPlot, in the page"}
	for _, dep := range info.Deps {
		said, err := r.output("go", "mod", "download", "-json", dep.Path+"@"+dep.Version)
		if err != nil {
			return nil, err
		}
		var module struct{ Dir string }
		if err := json.Unmarshal([]byte(said), &module); err != nil {
			return nil, err
		}
		names, dirs = append(names, dep.Path+" "+dep.Version), append(dirs, module.Dir)
	}
	var all bytes.Buffer
	for i, dir := range dirs {
		before := all.Len()
		if err := addLicenses(&all, names[i], dir); err != nil {
			return nil, err
		}
		if all.Len() == before {
			return nil, fmt.Errorf("%s has no license", names[i])
		}
	}
	return all.Bytes(), nil
}

// addLicenses appends the licenses and notices in a directory.
func addLicenses(all *bytes.Buffer, module, dir string) error {
	license := regexp.MustCompile(`(?i)^((un)?licen[cs]e|copying|notice|patents)([._-].*)?$`)
	return filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !license.MatchString(d.Name()) || filepath.Ext(p) == ".go" {
			return err
		}
		text, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(dir, p)
		fmt.Fprintf(all, "==== %s, %s\n\n%s\n", module, name, text)
		return err
	})
}
