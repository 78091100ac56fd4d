package browser_test

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/zlib"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// markup runs code wherever a text is inserted as HTML.
const markup = `<img src=x onerror=alert(1)><script>alert(2)</script><svg onload=alert(3)><iframe srcdoc="<script>parent.alert(4)</script>">`

// drawing is the beginning of an SVG. Wherever it is executed, it runs scripts and sends a request
// to another host.
const drawing = `<svg xmlns="http://www.w3.org/2000/svg" width="40" height="40" onload="alert(5)"><script>alert(6)</script><image href="http://127.0.0.9/x.png"/>`

const pngMark = "\x89PNG\r\n\x1a\n"

// file is a file, or a member of an archive. Archives keep the order of files.
type file struct{ name, content string }

// hostileSet is a dataset that tries to run code, request other hosts, or break its readers.
type hostileSet struct {
	name  string
	write func(t *testing.T, dir string)
	args  []string // of index
	says  string   // expected text in one of its samples
	never string   // selector that must match nothing
}

// damaged is a dataset with a shard that was replaced after indexing. The gateway's error names the
// shard.
const damaged = "damaged-shards"

var damagedFile = file{"<img src=x onerror=alert(29)>.tar", "damaged"}

func hostileSets(t *testing.T) []hostileSet {
	t.Helper()
	return []hostileSet{
		{"keys-of-markup", inTar(file{"a<img src=x onerror=alert(7)>.txt", markup}, file{"b<script>alert(8)</script>.txt", "b"}, file{`c" onclick="alert(9).txt`, "c"}, file{"javascript:alert(10).txt", "d"}), nil, "onclick=", ""},
		{"keys-of-paths", inTar(file{"a%2Fb.txt", "1"}, file{"a?b=c&d.txt", "2"}, file{"a#b.txt", "3"}, file{"../../etc/passwd.txt", "4"}, file{"a/./b/../c.txt", "5"}, file{"line\nfeed\r\ttab.txt", "6"}, file{`back\slash.txt`, "7"}, file{"%00%zz.txt", "8"}), nil, `line\u000afeed`, ""},
		{"keys-of-bytes", inTar(file{"\xff\xfe\x80.txt", "1"}, file{"\xc0\xaf<img src=x onerror=alert(11)>.txt", "2"}, file{"\xed\xa0\x80surrogate.txt", "3"}), nil, "surrogate", ""},
		{"keys-of-4-kilobytes", inTar(file{strings.Repeat("<b>", 700) + "/" + strings.Repeat("k", 1990) + ".txt", "long"}, file{strings.Repeat("\u202e", 1360) + ".txt", "turned"}), nil, `\u202e\u202e`, ""},
		{"keys-of-prototypes", inTar(file{"__proto__.constructor", "1"}, file{"constructor.__proto__", "2"}, file{"toString.valueOf", "3"}, file{"hasOwnProperty.length", "4"}), nil, "__proto__", ""},
		{"keys-of-directions", inTar(file{"l\u202egnp.txt", "bidi \u202e" + markup}, file{"a\u200bb\ufeff.txt", "\u2066zero\u2069"}, file{"a\u200cb.txt", "\u2028 \u2029"}), nil, `\u202egnp`, ""},
		{"suffixes", inTar(file{"a.<img src=x onerror=alert(12)>", "1"}, file{`b." style="x`, "2"}, file{"c.js", "alert(13)"}, file{"d." + strings.Repeat("x", 4000), "4"}), nil, "alert(13)", ""},
		{"labels", inTar(file{"a.cls", markup}, file{"b.cls", "__proto__"}, file{"c.cls", "\x00\x01\xff"}, file{"d.cls", strings.Repeat("9", 9999)}), nil, "onload=alert(3)", ""},
		{"class-folders", inFolder(file{"<img src=x onerror=alert(14)>/a.png", pixels(4, 4)}, file{"__proto__/b.png", pixels(4, 4)}, file{"constructor/c.png", "x"}, file{"\u202ecat/d.png", pixels(4, 4)}), nil, "<img src=x onerror=alert(14)>", ""},
		{"json", inTar(file{"a.json", `{"a": ` + quoted(markup) + `, "__proto__": {"x": 1}, "constructor": null}`}, file{"b.json", `{"n": 1e999999, "m": 123456789012345678901234567890}`}, file{"c.json", `{"a": "` + strings.Repeat("\\", 99999)}, file{"d.json", strings.Repeat(`{"a":`, 3e4)}, file{"e.json", strings.Repeat("[", 1e5)}, file{"f.json", "\ufeff{}\x00"}), nil, "123456789012345678901234567890", ""},
		{"drawings", inTar(file{"a.svg", drawing + "</svg>"}, file{"b.svg", drawing + `<foreignObject><body xmlns="http://www.w3.org/1999/xhtml" onload="alert(15)"/></foreignObject></svg>`}, file{"c.svg", doubling("use", `<use href="#%s"/>`)}, file{"d.svg", doubling("clipPath", `<rect width="9" height="9" clip-path="url(#%s)"/>`)},
			file{"e.svg", `<!DOCTYPE svg [<!ENTITY a "b">]><svg xmlns="http://www.w3.org/2000/svg">&a;</svg>`}, file{"f.svg", `<svg xmlns="http://www.w3.org/2000/svg"><style>@import "http://127.0.0.9/x.css"; svg { animation: x 1ms infinite }</style></svg>`},
			file{"g.svg", `<?xml-stylesheet href="http://127.0.0.9/x.xsl" type="text/xsl"?><svg xmlns="http://www.w3.org/2000/svg"/>`}, file{"h.svg", `<svg xmlns="http://www.w3.org/2000/svg" width="9e9" height="9e9"><a href="javascript:alert(16)"><rect width="9e9" height="9e9"/></a></svg>`},
			file{"i.svg", `<svg xmlns="http://www.w3.org/2000/svg" width="4000" height="4000">` + strings.Repeat(`<g opacity=".99"><rect width="4000" height="4000" fill="red"/>`, 1000) + strings.Repeat("</g>", 1000) + "</svg>"}, file{"j.svg", `<svg xmlns="http://www.w3.org/2000/svg" width="4000" height="4000">` + strings.Repeat(`<path d="M0 0L4000 4000 0 4000 4000 0" stroke="red" stroke-width="9e9"/>`, 5000) + "</svg>"}), nil, "foreignObject", ""},
		{"documents", inTar(file{"a.html", markup}, file{"b.xml", `<?xml-stylesheet href="javascript:alert(17)"?>` + drawing + "</svg>"}, file{"c.js", "alert(18)"}, file{"d.txt", "javascript:alert(19)"}, file{"e.css", "@import 'http://127.0.0.9/';"}, file{"f.pdf", "This is a PDF document"}, file{"g.txt", strings.Repeat("A", 5000) + markup + "\x00\x01\xff"}), nil, "This is a PDF document", ""},
		{"broken-pictures", inTar(file{"a.png", pngMark + markup}, file{"b.jpg", "\xff\xd8\xff\xe0" + markup}, file{"c.gif", "GIF89a"}, file{"d.webp", "RIFF\xff\xff\xff\xffWEBPVP8X"}, file{"e.bmp", "BM" + markup}, file{"f.avif", "\x00\x00\x00\x1cftypavif" + markup}, file{"g.png", pixels(8, 8)[:60]}, file{"h.jpg", markup}, file{"i.tif", "II*\x00" + markup}), nil, "Not a readable png", ""},
		{"huge-pictures", inTar(hugePictures()...), nil, "too large to show", "main .shown"},
		{"many-pictures", inTar(manyPictures()...), nil, "Download sample, 9 KiB", ""},
		{"sounds", inTar(file{"a.wav", "RIFF\xff\xff\xff\xffWAVEfmt " + markup}, file{"b.mp3", "ID3" + markup}, file{"c.mp4", "\x00\x00\x00\x1cftypisom" + markup}, file{"d.ogg", "OggS" + markup}, file{"e.webm", "\x1aE\xdf\xa3" + markup}, file{"f.flac", "fLaC" + markup}), nil, "Not a readable audio", ""},
		{"arrays", inTar(file{"a.npy", "\x93NUMPY\x01\x00\xff\xff" + markup}, file{"b.npy", header("<f4", "4000000000, 4000000000") + markup}, file{"c.npy", header("|u1", "4000000, 4000000") + markup}, file{"d.npy", header("<f4", "-1, 2") + "12345678"}, file{"e.npy", header("|O", "1,") + "cposix\nsystem\n"}, file{"f.npy", header("<f4", strings.Repeat("0, ", 900)) + "1"}, file{"g.pkl", "cposix\nsystem\n(S'id'\ntR."}), nil, "runs code when it is read", ""},
		{"a-gigabyte", gigabyte, nil, "the page shows its beginning", ""},
		{"lines", inFolder(file{"a.jsonl", `{"a": ` + quoted(markup) + "}\n" + `{"__proto__": [` + strings.Repeat(`"x",`, 5000) + "1]}\n"}), nil, "onload=alert(3)", ""},
		{"table", inFolder(file{"a.csv", `"<img src=x onerror=alert(20)>",__proto__,"=cmd|'/c calc'!A1"` + "\n" + `"<script>alert(21)</script>",x,"` + strings.ReplaceAll(markup, `"`, `""`) + "\"\n"}), nil, "=cmd|", ""},
		{"parquet", parquetColumns, nil, "onerror=alert(22)", ""},
		{"arrow", arrowColumns, nil, "onerror=alert(23)", ""},
		{"mds", mdsColumns, nil, "onerror=alert(24)", ""},
		{"litdata", litdataLeaves, nil, "onload=alert(3)", ""},
		{"tfrecord", inFolder(file{"a.tfrecord", tfrecord(example(markup, markup)) + tfrecord(example("__proto__", "x")) + tfrecord("\x0a\xff\xff\xff\xff\x0f") + tfrecord(strings.Repeat("\x0a\x02\x0a\x00", 9999)) + tfrecord(markup)}), nil, "onload=alert(3)", ""},
		{"tokens", inFolder(file{"a.bin", strings.Repeat("\x01\x00\x02\x00\xff\xff", 40)}), []string{"--sequence-length", "16", "--dtype", "uint16"}, "65535", ""},
		{"zip", inZip(file{"a<img src=x onerror=alert(25)>.txt", markup}, file{"a.__proto__", "1"}), nil, "onerror=alert(25)", ""},
		{"shards-of-markup", func(t *testing.T, dir string) {
			put(t, dir, file{"<img src=x onerror=alert(26)>.tar", archive(t, file{"a.txt", markup})}, file{`" onclick="alert(27).tar`, archive(t, file{"a.txt", markup})})
		}, nil, "<img src=x onerror=alert(26)>.tar", ""},
		{damaged, inFolder(file{damagedFile.name, archive(t, file{"a.txt", markup})}), nil, "<img src=x onerror=alert(29)>.tar", ""},
		{"constructor", inTar(file{"a.txt", "a dataset of this name"}), nil, "a dataset of this name", ""},
		{"a.--script.js", inTar(file{"a.txt", "a dataset of that name"}), nil, "a dataset of that name", ""},
	}
}

// put writes files below a directory.
func put(t *testing.T, dir string, files ...file) {
	t.Helper()
	for _, f := range files {
		path := filepath.Join(dir, filepath.FromSlash(f.name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Dir(path), filepath.Base(path), f.content)
	}
}

func inFolder(files ...file) func(*testing.T, string) {
	return func(t *testing.T, dir string) { t.Helper(); put(t, dir, files...) }
}

func inTar(files ...file) func(*testing.T, string) {
	return func(t *testing.T, dir string) { t.Helper(); put(t, dir, file{"a.tar", archive(t, files...)}) }
}

// archive returns a GNU tar. Names may contain any bytes.
func archive(t *testing.T, files ...file) string {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, f := range files {
		if err := w.WriteHeader(&tar.Header{Name: f.name, Size: int64(len(f.content)), Mode: 0o600, Format: tar.FormatGNU}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(f.content)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func inZip(files ...file) func(*testing.T, string) {
	return func(t *testing.T, dir string) {
		t.Helper()
		var b bytes.Buffer
		w := zip.NewWriter(&b)
		for _, f := range files {
			m, err := w.Create(f.name)
			if err == nil {
				_, err = m.Write([]byte(f.content))
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		put(t, dir, file{"a.zip", b.String()})
	}
}

// gigabyte writes a tar with one sparse member of a gigabyte, which takes a few blocks on disk.
func gigabyte(t *testing.T, dir string) {
	t.Helper()
	const size = 1<<30 - 1<<20
	var head bytes.Buffer
	if err := tar.NewWriter(&head).WriteHeader(&tar.Header{Name: "large.txt", Size: size, Mode: 0o600, ModTime: time.Unix(1, 0)}); err != nil {
		t.Fatal(err)
	}
	put(t, dir, file{"a.tar", head.String() + "It begins so. " + markup})
	if err := os.Truncate(filepath.Join(dir, "a.tar"), 512+size+1024); err != nil {
		t.Fatal(err)
	}
}

func quoted(text string) string {
	b, err := json.Marshal(text)
	if err != nil {
		panic(err) // any text can be encoded as JSON
	}
	return string(b)
}

// doubling returns an SVG of thirty elements. Each shows the previous one twice, which makes a
// billion in total.
func doubling(tag, twice string) string {
	out := `<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"><` + tag + ` id="x0"/>`
	for i := range 30 {
		once := fmt.Sprintf(twice, fmt.Sprint("x", i))
		group := tag
		if tag == "use" {
			group = "g"
		}
		out += fmt.Sprintf(`<%s id="x%d">%s%s</%s>`, group, i+1, once, once, group)
	}
	return out + strings.Replace(fmt.Sprintf(twice, "x30"), "%", "", 1) + "</svg>"
}

// chunk returns a chunk of a PNG.
func chunk(kind, data string) string {
	body := kind + data
	return string(binary.BigEndian.AppendUint32(nil, uint32(len(data)))) + body + string(binary.BigEndian.AppendUint32(nil, crc32.ChecksumIEEE([]byte(body))))
}

// pixels returns a grayscale PNG with one bit per pixel, so that large pictures take few bytes.
func pixels(width, height int) string {
	var rows bytes.Buffer
	w := zlib.NewWriter(&rows)
	row := make([]byte, 1+(width+7)/8)
	for range height {
		_, _ = w.Write(row) // into memory
	}
	_ = w.Close()
	size := binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, uint32(width)), uint32(height))
	return pngMark + chunk("IHDR", string(size)+"\x01\x00\x00\x00\x00") + chunk("IDAT", rows.String()) + chunk("IEND", "")
}

// hugePictures returns pictures of huge dimensions. In some of them only a browser's decoder finds
// the dimensions.
func hugePictures() []file {
	bomb := pixels(20000, 20000) // 50 KB, and 1.6 GB when a browser decodes it
	const sof = "\xff\xc0\x00\x11\x08\x4e\x20\x4e\x20\x03\x01\x22\x00\x02\x11\x01\x03\x11\x01"
	return []file{
		{"a.png", pngMark + "\x00\x00\x00\rIHDR\x7f\xff\xff\xff\x7f\xff\xff\xff\x08\x06\x00\x00\x00"},
		{"b.png", bomb},
		{"c.jpg", "\xff\xd8\xff\xe0\x00\x02" + sof},
		{"d.jpg", "\xff\xd8\xff\xe0\x00\x02junk" + sof + "\xff\xda\x00\x0c\x03\x01\x00\x02\x11\x03\x11\x00\x3f\x00" + strings.Repeat("\x00", 999)},
		{"e.gif", "GIF89a\x01\x00\x01\x00\x80\x00\x00\x00\x00\x00\xff\xff\xff,\x00\x00\x00\x00\x20\x4e\x20\x4e\x00\x02\x02\x44\x01\x00;"},
		{"f.webp", "RIFF\x30\x00\x00\x00WEBPVP8X\x0a\x00\x00\x00\x00\x00\x00\x00\x1f\x4e\x00\x1f\x4e\x00"},
		{"g.bmp", "BM\x00\x00\x00\x00\x00\x00\x00\x00\x36\x00\x00\x00\x28\x00\x00\x00\x20\x4e\x00\x00\x20\x4e\x00\x00\x01\x00\x01\x00" + strings.Repeat("\x00", 24)},
		{"h.svg", `<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"><image href="data:image/png;base64,` + encoded(bomb) + `"/></svg>`},
	}
}

// manyPictures returns pictures of the largest size that the page shows, with 8 KB each.
func manyPictures() []file {
	var all []file
	for i, large := 0, pixels(8191, 8191); i < 8; i++ {
		all = append(all, file{fmt.Sprint(i, ".png"), large})
	}
	return all
}
