package browser_test

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"image"
	"image/color"
	"image/jpeg"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/millrace-data/millrace/integration/harness"
)

var update = flag.Bool("update", false, "write docs/pictures anew, from the page as it is")

const (
	mostPicture = 200 << 10 // bytes of one picture for the docs
	ranks       = 8
)

// shape draws a shape whose number of corners and color depend on the class.
func shape(class, number int) image.Image {
	const side = 96
	m := image.NewRGBA(image.Rect(0, 0, side, side))
	turn, grow := float64(number)*0.7, 26+8*math.Sin(float64(number))
	x0, y0 := 48+9*math.Sin(float64(number)*1.3), 48+9*math.Cos(float64(number)*2.1)
	hue := float64(class) / 10 * 2 * math.Pi
	part := func(shift, light float64) uint8 { return uint8(min(255, max(0, 255*(light+0.32*math.Cos(hue-shift))))) }
	for p := range side * side {
		x, y := float64(p%side)-x0, float64(p/side)-y0
		radius, angle := math.Hypot(x, y), math.Atan2(y, x)+turn
		edge := grow * (1 + 0.28*math.Cos(angle*float64(class+2)))
		light := 0.14 + 0.10*float64(p/side)/side
		if radius < edge {
			light = 0.62 - 0.16*radius/grow
		}
		m.Set(p%side, p/side, color.RGBA{part(0, light), part(2.1, light), part(4.2, light), 255})
	}
	return m
}

// shapes packs pictures of ten classes, sorted by class like much real data.
func shapes(t *testing.T, n int) *harness.Store {
	t.Helper()
	dir := t.TempDir()
	for i := range n {
		class := i * 10 / n
		var text bytes.Buffer
		if err := jpeg.Encode(&text, shape(class, i), nil); err != nil {
			t.Fatal(err)
		}
		write(t, dir, fmt.Sprintf("shape-%04d.jpg", i), text.String())
		write(t, dir, fmt.Sprintf("shape-%04d.cls", i), fmt.Sprint(class))
	}
	store := harness.Open(t, "dir")
	harness.Pack(t, store, dir, dataset, "--batch-size", "32", "--chunk-size", "64KiB")
	return store
}

// train runs a job of eight ranks until ctx ends. Rank 3 is slow.
func train(ctx context.Context, g *harness.Gateway) {
	var all sync.WaitGroup
	defer all.Wait()
	for rank := range ranks {
		all.Go(func() {
			pause := 150 * time.Millisecond
			if rank == 3 {
				pause = 900 * time.Millisecond
			}
			for m := 0; ctx.Err() == nil; m++ {
				url := fmt.Sprintf("%s/epoch/%d/batch/%d?batch_size=64&rank=%d&world_size=%d", g.URL, m/25, m%25, rank, ranks)
				r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
				if err != nil {
					return
				}
				if a, err := http.DefaultClient.Do(r); err == nil {
					_ = a.Write(discard{})
				}
				select {
				case <-ctx.Done():
				case <-time.After(pause):
				}
			}
		})
	}
}

type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }

// TestPictures shows the views of the docs while a job of eight ranks reads. With -update it writes
// the pictures for the docs.
func TestPictures(t *testing.T) {
	g := harness.Serve(t, shapes(t, 1600), dataset, "--cache-size", "64MiB", "--admin-listen=")
	ctx, cancel := context.WithCancel(t.Context())
	var job sync.WaitGroup
	job.Go(func() { train(ctx, g) })
	defer job.Wait()
	defer cancel()
	watched := time.Duration(0)
	if *update {
		watched = time.Minute
	}
	b := open(t)
	for name, at := range map[string]struct {
		fragment, there string
		height          int64
		watched         time.Duration
	}{
		"page-status":      {"/", `document.querySelectorAll("#jobs tbody tr").length === 1 && document.querySelector("#usage code")`, 900, watched / 6},
		"page-batch":       {"/data/photos/epochs/3/batches/17", `document.querySelectorAll(".tile[data-state=shown] img").length > 3`, 820, 0},
		"page-shuffle":     {"/shuffle/photos", `document.querySelectorAll("main table").length > 1 && document.querySelector("canvas")`, 900, 0},
		"page-performance": {"/performance", fmt.Sprintf(`document.querySelectorAll("#ranks tbody tr").length === %d`, ranks), 1180, watched},
	} {
		v := b.tab(t, g.URL)
		v.size(1200, at.height, "light")
		v.do(chromedp.Navigate(g.URL + "/#" + at.fragment))
		v.until("Boolean(" + at.there + ")")
		select {
		case <-t.Context().Done():
		case <-time.After(at.watched):
		}
		v.keep(name)
		v.clean(name)
	}
	docs := filepath.Join("..", "..", "docs", "pictures")
	for _, name := range []string{"page-status", "page-batch", "page-shuffle", "page-performance"} {
		file := filepath.Join(docs, name+".png")
		if *update {
			picture, err := os.ReadFile(filepath.Join("..", "..", "bin", "screenshots", name+".png"))
			if err == nil {
				err = os.WriteFile(file, picture, 0o644)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		picture, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if shown, err := os.ReadFile(filepath.Join("..", "..", "docs", "page.md")); err != nil || !bytes.Contains(shown, []byte("pictures/"+name+".png")) {
			t.Errorf("docs/page.md does not show %s.png: %v", name, err)
		}
		if c, _, err := image.DecodeConfig(bytes.NewReader(picture)); err != nil || c.Width != 1200 || len(picture) > mostPicture {
			t.Errorf("%s: got %d bytes, %d pixels wide, %v, want at most %d and 1200", file, len(picture), c.Width, err, mostPicture)
		}
	}
}
