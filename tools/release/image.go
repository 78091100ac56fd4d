package main

import (
	"bytes"
	"compress/gzip"
	"encoding/pem"
	"io"
	"os"
	"path/filepath"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// imageName is the name under which releases publish the image.
const imageName = "ghcr.io/millrace-data/millrace"

// nonroot is the ID of the image's user and group. Other small images use the same ID.
const nonroot = 65532

// writeImage writes an archive in OCI layout, with images for Linux on both architectures.
func (r *release) writeImage() error {
	var both v1.ImageIndex = mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, p := range r.programs {
		if p.system != "linux" {
			continue
		}
		image, err := r.image(p)
		if err != nil {
			return err
		}
		both = mutate.AppendManifests(both, mutate.IndexAddendum{
			Add: image, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: p.system, Architecture: p.arch}},
		})
	}
	dir := filepath.Join(r.work, "image")
	place, err := layout.Write(dir, empty.Index)
	if err != nil {
		return err
	}
	// The archive has a single entry, the index of both images, because podman, skopeo and
	// containerd accept no more.
	if err := place.AppendIndex(both, layout.WithAnnotations(map[string]string{
		"org.opencontainers.image.ref.name": r.version, "io.containerd.image.name": imageName + ":" + r.version,
	})); err != nil {
		return err
	}
	files, err := readTree(dir, "")
	if err != nil {
		return err
	}
	var out bytes.Buffer
	if err := writeTar(&out, sorted(files), r.time); err != nil {
		return err
	}
	return r.write("millrace-"+r.version+"-image.oci.tar", out.Bytes())
}

// image builds the image of one architecture from two layers: one that seldom changes, and the
// program.
func (r *release) image(p program) (v1.Image, error) {
	data, err := os.ReadFile(p.path)
	if err != nil {
		return nil, err
	}
	papers := []file{}
	for _, f := range r.papers {
		if filepath.Dir(f.name) == "." {
			papers = append(papers, file{name: "usr/share/doc/millrace/" + f.name, data: f.data, mode: f.mode})
		}
	}
	base, err := r.baseLayer()
	if err != nil {
		return nil, err
	}
	top, err := r.layer(append(papers, file{name: "millrace", data: data, mode: 0o755}))
	if err != nil {
		return nil, err
	}
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	if image, err = mutate.AppendLayers(image, base, top); err != nil {
		return nil, err
	}
	return mutate.ConfigFile(image, r.imageConfig(image, p))
}

func (r *release) imageConfig(image v1.Image, p program) *v1.ConfigFile {
	config, err := image.ConfigFile()
	if err != nil {
		panic(err) // impossible: the image was built in memory
	}
	config.OS, config.Architecture, config.Created = p.system, p.arch, v1.Time{Time: r.time}
	config.Config = v1.Config{
		User: "65532:65532", Entrypoint: []string{"/millrace"}, Cmd: []string{"--help"}, WorkingDir: "/home/nonroot",
		Env:          []string{"PATH=/", "HOME=/home/nonroot"},
		ExposedPorts: map[string]struct{}{"8080/tcp": {}, "8081/tcp": {}, "9090/tcp": {}, "7946/tcp": {}},
		Labels: map[string]string{
			"org.opencontainers.image.title": "millrace", "org.opencontainers.image.version": r.version, "org.opencontainers.image.revision": r.commit,
			"org.opencontainers.image.source": "https://github.com/millrace-data/millrace", "org.opencontainers.image.licenses": "Apache-2.0",
		},
	}
	return config
}

// baseLayer returns a layer with the files that the program expects on any system: a user, writable
// directories, and the authorities that Mozilla trusts.
func (r *release) baseLayer() (v1.Layer, error) {
	var roots bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint != nil { // trusted only for some certificates, which a file of roots cannot express
			continue
		}
		if err := pem.Encode(&roots, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}); err != nil {
			return nil, err
		}
	}
	passwd := "root:x:0:0:root:/root:/sbin/nologin\nnonroot:x:65532:65532:nonroot:/home/nonroot:/sbin/nologin\n"
	return r.layer([]file{
		{name: "etc/", mode: 0o755},
		{name: "etc/group", data: []byte("root:x:0:\nnonroot:x:65532:\n"), mode: 0o644},
		{name: "etc/passwd", data: []byte(passwd), mode: 0o644},
		{name: "etc/ssl/", mode: 0o755},
		{name: "etc/ssl/certs/", mode: 0o755},
		{name: "etc/ssl/certs/ca-certificates.crt", data: roots.Bytes(), mode: 0o644},
		{name: "home/", mode: 0o755},
		{name: "home/nonroot/", mode: 0o700, owner: nonroot},
		{name: "tmp/", mode: 0o1777},
	})
}

func (r *release) layer(files []file) (v1.Layer, error) {
	var out bytes.Buffer
	if err := writeTar(&out, files, r.time); err != nil {
		return nil, err
	}
	return tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(out.Bytes())), nil },
		tarball.WithMediaType(types.OCILayer), tarball.WithCompressionLevel(gzip.BestCompression))
}
