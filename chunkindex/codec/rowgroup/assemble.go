package rowgroup

import (
	"encoding/binary"
	"errors"

	"github.com/millrace-data/millrace/chunkindex/rows"
)

// record assembles a row, or a struct inside a list, from its columns.
type record struct {
	layout  *rows.Layout
	builder *rows.Builder
	steps   []step
}

// step is a node of a record's layout.
type step struct {
	node *rows.Node
	def  int       // definition level at which the node is present
	skip int       // same as Skip in rows.Step
	cols []*column // columns of the node
	list *list     // assembler of the node, if it is a list
}

// list assembles the elements of a list.
type list struct {
	rep     int // repetition level of all elements except the first
	def     int // definition level at which an element exists
	present int // definition level at which the element is not null
	cols    []*column
	node    *rows.Node // the element
	inner   *list      // for elements that are themselves lists
	record  *record    // for elements that are structs
	buf     []byte     // encoded lists of the current row
	nulls   []bool     // for each element of the current list, whether the element is null
}

var (
	errLevels = errors.New("the levels of its columns do not match each other")
	errNull   = errors.New("a list of fixed-size values has a null element, which is not supported: write the file again with a value for each null, or with null for the whole list")
)

// planner converts a schema to records. It consumes the columns in schema order.
type planner struct {
	columns []*column
	at      int
	lists   []*list
}

// record plans a row or a struct. now contains the levels at which the record is present.
func (p *planner) record(fields []*rows.Node, now levels) (*record, error) {
	l, err := rows.NewLayout(fields)
	if err != nil {
		return nil, err
	}
	r := &record{layout: l, builder: rows.NewBuilder(l)}
	for _, n := range fields {
		if err := p.add(r, n, now); err != nil {
			return nil, err
		}
	}
	for i := range r.steps {
		r.steps[i].skip = l.Steps[i].Skip
	}
	return r, nil
}

func (p *planner) add(r *record, n *rows.Node, now levels) (err error) {
	if n.Nullable {
		now.def++
	}
	at, first := len(r.steps), p.at
	r.steps = append(r.steps, step{node: n, def: now.def})
	switch n.Kind {
	case rows.Struct:
		for _, c := range n.Children {
			if err := p.add(r, c, now); err != nil {
				return err
			}
		}
	case rows.List:
		if r.steps[at].list, err = p.list(n, now); err != nil {
			return err
		}
	default:
		p.leaf(now)
	}
	r.steps[at].cols = p.columns[first:p.at]
	return nil
}

func (p *planner) leaf(now levels) {
	p.columns[p.at].most = now
	p.at++
}

// list plans a list. now contains the levels at which the list is present.
func (p *planner) list(n *rows.Node, now levels) (l *list, err error) {
	now.def++
	now.rep++
	l = &list{rep: now.rep, def: now.def, node: n.Children[0]}
	p.lists = append(p.lists, l)
	if l.node.Nullable {
		now.def++
	}
	l.present = now.def
	first := p.at
	switch l.node.Kind {
	case rows.Struct:
		l.record, err = p.record(l.node.Children, now)
	case rows.List:
		l.inner, err = p.list(l.node, now)
	default:
		p.leaf(now)
	}
	l.cols = p.columns[first:p.at]
	return l, err
}

// must returns the levels of the next entry, or an error if there is no further entry.
func (c *column) must() (levels, error) {
	now, ok, err := c.peek()
	if err == nil && !ok {
		err = c.fail(errRagged)
	}
	return now, err
}

// drop consumes one entry without a value from each column, because an ancestor is null or empty.
// The levels of all these entries must agree.
func drop(cols []*column, def int) error {
	for _, c := range cols {
		now, err := c.must()
		if err != nil {
			return err
		}
		if now.def != def {
			return c.fail(errLevels)
		}
		c.has = false
	}
	return nil
}

// read reads the next record into the record's builder. Lists must not exceed limit.
func (r *record) read(limit int64) error {
	b := r.builder
	b.Reset()
	for i := 0; i < len(r.steps); i++ {
		s := &r.steps[i]
		if s.node.Kind == rows.Struct && !s.node.Nullable {
			continue
		}
		c := s.cols[0]
		now, err := c.must()
		if err != nil {
			return err
		}
		switch {
		case s.node.Nullable && now.def == s.def-1:
			if err := drop(s.cols, now.def); err != nil {
				return err
			}
			b.Null(i)
			i += s.skip
		case now.def < s.def:
			return c.fail(errLevels)
		case s.node.Kind != rows.Struct:
			if err := s.value(b, limit); err != nil {
				return err
			}
		}
	}
	return nil
}

// value reads the value of a step whose node is present.
func (s *step) value(b *rows.Builder, limit int64) error {
	if s.list != nil {
		v, err := s.list.read(limit)
		if err == nil {
			b.Variable(v)
		}
		return err
	}
	v, err := s.cols[0].value()
	if err != nil {
		return err
	}
	if s.node.Kind == rows.Fixed {
		b.Fixed(v)
	} else {
		b.Variable(v)
	}
	return nil
}

// read reads a list that is present, that is, not null.
func (l *list) read(limit int64) ([]byte, error) {
	now, err := l.cols[0].must()
	if err != nil {
		return nil, err
	}
	flat := l.node.Kind == rows.Fixed
	switch {
	case now.def < l.def-1:
		return nil, l.cols[0].fail(errLevels)
	case now.def == l.def-1: // the list is empty
		if err := drop(l.cols, now.def); err != nil || flat {
			return nil, err
		}
		return rows.SealList(nil, 0, nil), nil
	case flat:
		return l.readFlat(limit)
	}
	return l.readNested(limit)
}

// more reports whether the list has another element. All columns of the list must agree.
func (l *list) more() (bool, error) {
	goesOn := false
	for i, c := range l.cols {
		now, ok, err := c.peek()
		if err != nil {
			return false, err
		}
		more := ok && now.rep == l.rep
		if ok && now.rep > l.rep || i > 0 && more != goesOn {
			return false, c.fail(errLevels)
		}
		goesOn = more
	}
	return goesOn, nil
}

// readFlat reads a list of fixed-size values. It does not copy values that are contiguous in one
// page.
func (l *list) readFlat(limit int64) ([]byte, error) {
	c, start := l.cols[0], len(l.buf)
	for n := 0; ; {
		now, err := c.must()
		if err != nil {
			return nil, err
		}
		if now.def != l.present {
			return nil, c.fail(errNull)
		}
		c.has = false
		n++
		if int64(n)*int64(l.node.Size) > limit {
			return nil, rows.ErrLimit
		}
		if c.left > 0 {
			more, err := l.more()
			if err != nil {
				return nil, err
			}
			if more {
				continue
			}
			return l.take(n, start, limit)
		}
		v, err := l.take(n, start, limit) // take the values before the next page replaces this one
		if err != nil {
			return nil, err
		}
		more, err := l.more()
		if err != nil || !more {
			return v, err
		}
		if len(l.buf) == start {
			l.buf = append(l.buf, v...)
		}
		n = 0
	}
}

// take reads the values of n entries of the current page. It returns the list's values that are
// already in the buffer, followed by these values.
func (l *list) take(n, start int, limit int64) ([]byte, error) {
	c := l.cols[0]
	if p, ok := c.src.(*plainFixed); ok {
		v, err := p.run(n)
		if err != nil {
			return nil, c.fail(err)
		}
		if len(l.buf) == start {
			return v, nil
		}
		l.buf = append(l.buf, v...)
		return l.buf[start:], nil
	}
	for range n {
		v, err := c.src.next()
		if err != nil {
			return nil, c.fail(err)
		}
		if l.buf = append(l.buf, v...); int64(len(l.buf)) > limit {
			return nil, rows.ErrLimit
		}
	}
	return l.buf[start:], nil
}

// readNested reads a list in the nested encoding.
func (l *list) readNested(limit int64) ([]byte, error) {
	start := len(l.buf)
	l.nulls = l.nulls[:0]
	for {
		now, err := l.cols[0].must()
		if err != nil {
			return nil, err
		}
		null := l.node.Nullable && now.def == l.present-1
		switch {
		case null:
			err = drop(l.cols, now.def)
		case now.def < l.present:
			err = l.cols[0].fail(errLevels)
		default:
			err = l.element(limit)
		}
		if err != nil {
			return nil, err
		}
		l.nulls = append(l.nulls, null)
		if int64(len(l.buf)+len(l.nulls)) > limit {
			return nil, rows.ErrLimit
		}
		if more, err := l.more(); err != nil || !more {
			l.buf = rows.SealList(l.buf, start, l.nulls)
			return l.buf[start:], err
		}
	}
}

// element appends an element that is not null.
func (l *list) element(limit int64) (err error) {
	if l.record != nil {
		if err = l.record.read(limit); err == nil {
			l.buf, err = l.record.builder.Append(l.buf, limit)
		}
		return err
	}
	var v []byte
	if l.inner != nil {
		v, err = l.inner.read(limit)
	} else {
		v, err = l.cols[0].value()
	}
	if err != nil {
		return err
	}
	if int64(len(l.buf)+len(v)) > limit {
		return rows.ErrLimit
	}
	l.buf = append(binary.LittleEndian.AppendUint32(l.buf, uint32(len(v))), v...)
	return nil
}
