package browser_test

import (
	"encoding/base64"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/millrace-data/millrace/integration/harness"
)

// film records a canvas with changing colors in the browser, and returns the video's bytes.
const film = `(async (type) => {
  const canvas = Object.assign(document.createElement("canvas"), { width: 64, height: 48 }), pen = canvas.getContext("2d"), pieces = [];
  const camera = new MediaRecorder(canvas.captureStream(30), { mimeType: type }), over = new Promise((resolve) => { camera.onstop = resolve; });
  camera.ondataavailable = (e) => pieces.push(e.data);
  camera.start();
  for (let i = 0; i < 20; i++) {
    pen.fillStyle = "#" + (100 + 40 * i);
    pen.fillRect(0, 0, 64, 48);
    await new Promise((resolve) => setTimeout(resolve, 33)); // the film's own pace
  }
  camera.stop();
  await over;
  return btoa(String.fromCharCode(...new Uint8Array(await new Blob(pieces).arrayBuffer())));
})(%q)`

// TestFilms shows both kinds of video that browsers support, in a tile and in the panel.
func TestFilms(t *testing.T) {
	store := harness.Open(t, "dir")
	b, about := open(t), harness.Serve(t, pictures(t, 1), dataset, "--cache-size", "64MiB")
	camera := b.tab(t, about.URL)
	camera.begin()
	var films []file
	for suffix, kind := range map[string]string{"webm": "video/webm;codecs=vp8", "mp4": "video/mp4;codecs=vp9"} {
		var text string
		camera.do(chromedp.Evaluate(fmt.Sprintf(film, kind), &text, func(p *runtime.EvaluateParams) *runtime.EvaluateParams { return p.WithAwaitPromise(true) }))
		body, err := base64.StdEncoding.DecodeString(text)
		if err != nil {
			t.Fatal(err)
		}
		films = append(films, file{suffix + "." + suffix, string(body)})
	}
	put(t, filepath.Join(store.Path, dataset), file{"a.tar", archive(t, films...)})
	harness.MustRun(t, store, "index", store.Dataset(dataset))
	v := b.tab(t, harness.Serve(t, store, dataset, "--cache-size", "64MiB").URL)
	v.begin()
	for _, at := range []struct {
		query, where string
		films        int
	}{{"", ".tile", 2}, {"?sample=0", "#panel", 1}, {"?sample=1", "#panel", 1}} {
		v.do(chromedp.Navigate(v.base + "/#/data/photos/epochs/0/batches/0" + at.query))
		v.until(fmt.Sprintf(`((all) => all.length === %d && all.every((film) => film.readyState > 0 && film.videoWidth === 64))([...document.querySelectorAll("%s video")])`, at.films, at.where))
		v.judge("films" + at.query)
	}
	v.keep("films")
	v.clean("films")
}
