//go:build linux

package kubernetes_test

import (
	"bytes"
	"fmt"
	raster "image"
	"image/color"
	"image/jpeg"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/millrace-data/millrace/integration/harness"
)

const (
	pictures  = 512
	classes   = 10
	shardSize = 128 << 10
)

// pageCommands returns the kubectl and helm commands in a section of docs/kubernetes.md. It checks
// their number.
func pageCommands(t *testing.T, section string, want int) (commands []string) {
	t.Helper()
	page, err := os.ReadFile("../../docs/kubernetes.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(page), "\n## "+section+"\n")
	text, _, _ = strings.Cut(text, "\n## ")
	for line := range strings.Lines(text) {
		if command, ok := strings.CutPrefix(line, "    "); ok && (strings.HasPrefix(command, "kubectl ") || strings.HasPrefix(command, "helm ")) {
			commands = append(commands, strings.TrimSpace(command))
		}
	}
	if len(commands) != want {
		t.Fatalf("docs/kubernetes.md, %s: got %d commands, want %d: %q", section, len(commands), want, commands)
	}
	return commands
}

// typed returns the words of a page's command, adapted to the test: the test does not run at the
// root of the checkout, and waits for at most a minute.
func typed(command string) []string {
	words := strings.Fields(command)
	for i, word := range words {
		switch {
		case strings.HasPrefix(word, "deploy/"):
			words[i] = filepath.Join("../..", word)
		case strings.HasPrefix(word, "--timeout="):
			words[i] = "--timeout=1m"
		}
	}
	return words
}

// putPictures uploads shards of pictures to the bucket, without an index. Each class has its own
// color.
func (l *lab) putPictures(t *testing.T) {
	t.Helper()
	dir, random := t.TempDir(), rand.New(rand.NewPCG(1, 2))
	for i := range pictures {
		class, picture := i%classes, raster.NewRGBA(raster.Rect(0, 0, 32, 32))
		for at := 0; at < len(picture.Pix); at += 4 {
			shade := func(channel int) uint8 { return uint8(40 + 25*((class*(channel+2)+channel)%7) + random.IntN(32)) }
			picture.Set(at/4%32, at/4/32, color.RGBA{shade(0), shade(1), shade(2), 255})
		}
		var coded bytes.Buffer
		if err := jpeg.Encode(&coded, picture, nil); err != nil {
			t.Fatal(err)
		}
		put(t, filepath.Join(dir, fmt.Sprintf("%06d.jpg", i)), coded.String())
		put(t, filepath.Join(dir, fmt.Sprintf("%06d.cls", i)), fmt.Sprint(class))
	}
	harness.Pack(t, l.store, dir, "pictures", "--shard-size", fmt.Sprint(shardSize))
	harness.TakeIndex(t, l.store.Objects(t), "pictures/")
}

// typePage runs the page's commands. The losses of the job's network fall, and the gateways read
// the bucket once, however many epochs the job reads.
func typePage(t *testing.T, l *lab) {
	l.putPictures(t)
	began, log := time.Now(), ""
	for _, command := range pageCommands(t, "From nothing to a training job", 8) {
		words := typed(command)
		for i, word := range words {
			if name, ok := strings.CutSuffix(word, "=..."); ok {
				value := l.store.Setting(t, name)
				if name == "AWS_ENDPOINT_URL_S3" {
					value = "http://minio.jobs.svc:9000"
				}
				words[i] = name + "=" + value
			}
			if word == "--values" {
				l.reads.Forget() // indexing is complete
			}
		}
		out, err := l.tool(t, words[0], "", words[1:]...)
		if err != nil {
			t.Fatalf("%s: %v\n%s", command, err, l.kubectl(t, "", "get", "pods", "--output", "wide"))
		}
		log = out
	}
	t.Logf("figure: the page's eight commands, from shards to a network of four ranks that has learnt for three epochs: %.1f s", time.Since(began).Seconds())
	var losses []float64
	for _, line := range regexp.MustCompile(`(?m)^epoch (\d): (\d+) samples, \d+% right, loss ([0-9.]+)$`).FindAllStringSubmatch(log, -1) {
		var loss float64
		if _, err := fmt.Sscan(line[3], &loss); err != nil || line[2] != fmt.Sprint(pictures) || line[1] != fmt.Sprint(len(losses)) {
			t.Errorf("got %q, want epoch %d of %d samples", line[0], len(losses), pictures)
		}
		losses = append(losses, loss)
	}
	if len(losses) != 3 || losses[2] > 0.9*losses[0] {
		t.Errorf("got losses %v, want three that fall; the log:\n%s", losses, log)
	}
	t.Logf("figure: %s", log)
	// Both gateways read the chunk that contains the border between their homes (here a shard,
	// one of eleven), and individual samples of the first batch. If each gateway read
	// everything, half of the bytes would be repeats.
	if again, all := l.reads.Again(), l.reads.Bytes(); again > all/6 || all == 0 {
		t.Errorf("got %d bytes read, %d of them more than once, want a sixth at most", all, again)
	}
	for _, args := range [][]string{{"helm", "uninstall", release, "--wait"}, {"kubectl", "delete", "--wait", "-k", "../../deploy/kubernetes/train"}} {
		if _, err := l.tool(t, args[0], "", args[1:]...); err != nil {
			t.Fatal(err)
		}
	}
}
