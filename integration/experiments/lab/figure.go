package lab

import (
	"fmt"
	"image/color"
	"io"
	"math"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// Figure is a chart with lines over a numeric axis, or with bars over names.
type Figure struct {
	Name   string   `json:"name"` // last part of its file name, after the experiment's name
	Title  string   `json:"title"`
	X      string   `json:"x,omitempty"` // the axis labels
	Y      string   `json:"y,omitempty"`
	LogX   bool     `json:"log_x,omitempty"`
	LogY   bool     `json:"log_y,omitempty"`
	Lines  []Line   `json:"lines,omitempty"`
	Names  []string `json:"names,omitempty"` // with bars: the groups
	Groups []Bars   `json:"groups,omitempty"`
}

// Drawn reports whether the figure has stored points. Old figures have only a picture.
func (f *Figure) Drawn() bool { return len(f.Lines)+len(f.Groups) > 0 }

// Line is one series of points. A line without points is not drawn.
type Line struct {
	Name   string    `json:"name"`
	X      []float64 `json:"x"`
	Y      []float64 `json:"y"`
	Dashed bool      `json:"dashed,omitempty"` // a bound or a formula, not a measurement
}

// Bars is one series of bars, with one bar for each name.
type Bars struct {
	Name string    `json:"name"`
	Y    []float64 `json:"y"`
}

// palette returns colors that are distinguishable in gray and for color-blind readers (Okabe and
// Ito).
func palette(i int) color.Color {
	colours := []color.RGBA{
		{0, 114, 178, 255},
		{213, 94, 0, 255},
		{0, 158, 115, 255},
		{204, 121, 167, 255},
		{86, 180, 233, 255},
		{230, 159, 0, 255},
		{90, 90, 90, 255},
		{150, 120, 60, 255},
	}
	return colours[i%len(colours)]
}

func marker(i int) draw.GlyphDrawer {
	shapes := []draw.GlyphDrawer{
		draw.CircleGlyph{}, draw.SquareGlyph{}, draw.TriangleGlyph{}, draw.CrossGlyph{}, draw.PlusGlyph{}, draw.RingGlyph{}, draw.PyramidGlyph{},
	}
	return shapes[i%len(shapes)]
}

// Draw writes the picture as SVG. Equal figures yield equal bytes.
func (f *Figure) Draw(w io.Writer) error {
	p := plot.New()
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = f.Title, f.X, f.Y
	p.Title.TextStyle.Font.Size = font.Points(12)
	p.BackgroundColor = color.White
	p.Legend.Top, p.Legend.Left = true, true
	p.Legend.Padding = vg.Points(2)
	if f.LogX {
		p.X.Scale, p.X.Tick.Marker = plot.LogScale{}, plot.LogTicks{Prec: -1}
	}
	if f.LogY {
		p.Y.Scale, p.Y.Tick.Marker = plot.LogScale{}, plot.LogTicks{Prec: -1}
	}
	p.Add(plotter.NewGrid())
	var err error
	if len(f.Names) > 0 {
		err = f.bars(p)
	} else {
		err = f.lines(p)
	}
	if err != nil {
		return fmt.Errorf("draw %s: %w", f.Name, err)
	}
	// The legend is outside the plot area.
	const width, height, legend = 19 * vg.Centimeter, 9 * vg.Centimeter, 6 * vg.Centimeter
	c := vgsvg.New(width, height)
	page := draw.New(c)
	side := p.Legend
	p.Legend = plot.NewLegend()
	p.Draw(draw.Crop(page, 0, -legend, 0, 0))
	side.Draw(draw.Crop(page, width-legend+vg.Points(6), 0, 0, -vg.Points(20)))
	_, err = c.WriteTo(w)
	return err
}

func (f *Figure) lines(p *plot.Plot) error {
	for i, l := range f.Lines {
		if len(l.X) == 0 {
			continue
		}
		line, points, err := plotter.NewLinePoints(l.points())
		if err != nil {
			return err
		}
		line.Color, line.Width = palette(i), vg.Points(1.5)
		points.Color, points.Shape, points.Radius = palette(i), marker(i), vg.Points(3)
		if l.Dashed {
			line.Dashes = []vg.Length{vg.Points(4), vg.Points(3)}
			p.Add(line)
			p.Legend.Add(l.Name, line)
			continue
		}
		p.Add(line, points)
		p.Legend.Add(l.Name, line, points)
	}
	if !f.LogY {
		p.Y.Min = math.Min(p.Y.Min, 0)
	}
	return nil
}

func (l Line) points() plotter.XYs {
	xy := make(plotter.XYs, len(l.X))
	for i := range xy {
		xy[i].X, xy[i].Y = l.X[i], l.Y[i]
	}
	return xy
}

func (f *Figure) bars(p *plot.Plot) error {
	width := vg.Points(260 / float64(len(f.Names)*(len(f.Groups)+1)))
	for i, g := range f.Groups {
		b, err := plotter.NewBarChart(plotter.Values(g.Y), width)
		if err != nil {
			return err
		}
		b.Color, b.LineStyle.Width = palette(i), 0
		b.Offset = width * vg.Length(float64(i)-float64(len(f.Groups)-1)/2)
		p.Add(b)
		p.Legend.Add(g.Name, b)
	}
	p.NominalX(f.Names...)
	return nil
}
