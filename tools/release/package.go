package main

import (
	"bytes"
	"compress/gzip"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/goreleaser/nfpm/v2"
	_ "github.com/goreleaser/nfpm/v2/deb" // registers Debian packages
	"github.com/goreleaser/nfpm/v2/files"
	_ "github.com/goreleaser/nfpm/v2/rpm" // registers RPM packages
)

// writePackages writes a Debian package and an RPM package for each architecture of Linux.
func (r *release) writePackages() error {
	for _, p := range r.programs {
		if p.system != "linux" {
			continue
		}
		for _, kind := range []string{"deb", "rpm"} {
			if err := r.writePackage(p, kind); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *release) writePackage(p program, kind string) error {
	contents, err := r.contents(p, kind)
	if err != nil {
		return err
	}
	info := nfpm.WithDefaults(&nfpm.Info{
		Name: "millrace", Arch: p.arch, Platform: "linux", Version: r.version, VersionSchema: "semver", Release: "1", MTime: r.time,
		Section: "net", Priority: "optional", Maintainer: "The Millrace authors <millrace@example.org>", Vendor: "Millrace", License: "Apache-2.0",
		Homepage: "https://github.com/millrace-data/millrace", DisableGlobbing: true,
		Description: "gateway for training data\nServes shuffled batches of training data from object stores, one HTTP GET each.",
		Overridables: nfpm.Overridables{
			Contents: contents, Recommends: []string{"ca-certificates"},
			Scripts: nfpm.Scripts{
				PostInstall: filepath.Join(r.root, "deploy", "packages", "installed.sh"),
				PreRemove:   filepath.Join(r.root, "deploy", "packages", "removing.sh"),
				PostRemove:  filepath.Join(r.root, "deploy", "packages", "removed.sh"),
			},
			RPM: nfpm.RPM{BuildHost: "millrace"}, // default: the name of this machine
		},
	})
	packager, err := nfpm.Get(kind)
	if err != nil {
		return err
	}
	var out bytes.Buffer
	if err := packager.Package(info, &out); err != nil {
		return err
	}
	return r.write(packager.ConventionalFileName(info), out.Bytes())
}

// contents returns the files of a package, at the paths that distributions use.
func (r *release) contents(p program, kind string) (files.Contents, error) {
	const doc = "/usr/share/doc/millrace/"
	zsh := map[string]string{"deb": "vendor-completions", "rpm": "site-functions"}[kind]
	places := map[string]string{
		"LICENSE": doc + map[string]string{"deb": "copyright", "rpm": "LICENSE"}[kind], "README.md": doc + "README.md", "LICENSES-OF-MODULES": doc + "LICENSES-OF-MODULES",
		"completions/millrace.bash": "/usr/share/bash-completion/completions/millrace",
		"completions/_millrace":     "/usr/share/zsh/" + zsh + "/_millrace",
		"completions/millrace.fish": "/usr/share/fish/vendor_completions.d/millrace.fish",
	}
	all := files.Contents{
		r.content(p.path, "/usr/bin/millrace", 0o755),
		r.content(filepath.Join(r.root, "deploy", "systemd", "millrace.service"), "/usr/lib/systemd/system/millrace.service", 0o644),
	}
	for _, f := range r.papers {
		place, data := places[f.name], f.data
		if strings.HasPrefix(f.name, "man/") {
			var zipped bytes.Buffer
			zip, _ := gzip.NewWriterLevel(&zipped, gzip.BestCompression) // no error: the level is valid
			if _, err := zip.Write(f.data); err != nil {
				return nil, err
			}
			if err := zip.Close(); err != nil {
				return nil, err
			}
			place, data = "/usr/share/"+f.name+".gz", zipped.Bytes()
		}
		source := filepath.Join(r.work, kind+"-"+path.Base(place))
		if err := os.WriteFile(source, data, 0o644); err != nil {
			return nil, err
		}
		all = append(all, r.content(source, place, 0o644))
	}
	return all, nil
}

func (r *release) content(source, place string, mode os.FileMode) *files.Content {
	return &files.Content{Source: source, Destination: place, FileInfo: &files.ContentFileInfo{Owner: "root", Group: "root", Mode: mode, MTime: r.time}}
}
