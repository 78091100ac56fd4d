package arrowbatch

import (
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/millrace-data/millrace/chunkindex/rows"
)

// form is the buffer layout of a column. The numbers are frozen, because a chunk's parameters
// contain them.
type form byte

const (
	formFixed   form = 0 // fixed-size values
	formBits    form = 1 // one bit per value
	formBytes   form = 2 // variable-size values with 32-bit offsets
	formLarge   form = 3 // variable-size values with 64-bit offsets
	formView    form = 4 // variable-size values with 16-byte views
	formStruct  form = 5
	formList    form = 6  // lists with 32-bit offsets
	formLists   form = 7  // lists with 64-bit offsets
	formFixList form = 8  // lists of a fixed length
	formNull    form = 9  // only nulls
	formCoded   form = 10 // numbers that refer to dictionary values
)

// layout is a node with the buffer layout of its values.
type layout struct {
	node     *rows.Node
	form     form
	count    int // number of elements per list, for formFixList
	children []*layout

	// For formCoded:
	width  int     // each number has 1 << width bytes
	signed bool    // the numbers are signed
	id     int64   // ID of the dictionary
	values *layout // layout of the dictionary's values
}

// Schema is the schema of a stream or file.
type Schema struct {
	Fields []*rows.Node
	Hub    string // column metadata of the Hugging Face datasets library, if that library wrote the file
	all    []*layout
	coded  []*layout // dictionary columns, in pre-order
}

var (
	errSchema = errors.New("schema of Arrow is malformed")
	errNested = fmt.Errorf("it has a dictionary of lists, structs or maps, which is not supported: %s", errValues)
)

// DeclaredFields returns the schema in a message that the writer of another file format stored. A
// field of an unsupported type has no type.
func DeclaredFields(b []byte) ([]*rows.Node, error) {
	m, err := ParseMessage(b)
	if err != nil {
		return nil, err
	}
	s, err := (&schemaReader{lenient: true}).schema(m.header)
	if err != nil {
		return nil, err
	}
	return s.Fields, nil
}

func (r *schemaReader) schema(t table) (_ *Schema, err error) {
	defer catch(&err)
	if t.missing() {
		return nil, errSchema
	}
	if t.i16(0, 0) != 0 {
		return nil, errors.New("its numbers are big-endian, which is not supported")
	}
	all, err := r.fields(t.tables(1), 0)
	if err != nil {
		return nil, err
	}
	hub := ""
	for _, note := range t.tables(2) {
		if note.text(0) == rows.HubKey {
			hub = note.text(1)
		}
	}
	s := &Schema{all: all, Hub: hub, coded: r.coded}
	for _, l := range all {
		s.Fields = append(s.Fields, l.node)
	}
	return s, nil
}

// schemaReader converts a schema. It counts the nodes, because a malicious schema may refer to one
// table many times.
type schemaReader struct {
	nodes   int
	coded   []*layout
	lenient bool // unsupported types are not an error
}

func (r *schemaReader) fields(tables []table, depth int) ([]*layout, error) {
	var all []*layout
	for _, t := range tables {
		l, err := r.field(t, depth)
		switch {
		case err == nil:
		case r.lenient:
			l = &layout{node: &rows.Node{Name: t.text(0)}}
		default:
			return nil, err
		}
		all = append(all, l)
	}
	return all, nil
}

func (r *schemaReader) field(t table, depth int) (*layout, error) {
	name := t.text(0)
	if r.nodes++; r.nodes > rows.MaxNodes || depth > rows.MaxDepth {
		return nil, errSchema
	}
	children, err := r.fields(t.tables(5), depth+1)
	if err != nil {
		return nil, err
	}
	l := &layout{node: &rows.Node{Name: name, Nullable: t.u8(1, 0) != 0}, children: children}
	if err := l.setType(int(t.u8(2, 0)), t.table(3)); err != nil {
		return nil, fmt.Errorf("column %.100q: %w", name, err)
	}
	if l.form == formNull {
		l.node.Nullable = true
	}
	for _, c := range children {
		l.node.Children = append(l.node.Children, c.node)
	}
	l.node.Extension = extension(t.tables(6))
	if t.has(4) {
		return l, r.encode(l, t.table(4))
	}
	if l.form == formStruct {
		return l, nil
	}
	for _, c := range children {
		c.node.Name = "" // elements have no name
	}
	if len(children) == 1 && children[0].form == formNull {
		return nil, fmt.Errorf("column %.100q is a list of nulls, which is not supported: write it with the type that its values would have", name)
	}
	if want := l.form == formList || l.form == formLists || l.form == formFixList; len(children) > 0 != want || len(children) > 1 {
		return nil, fmt.Errorf("column %.100q: %w", name, errSchema)
	}
	return l, nil
}

// extension returns the name and the parameters of an extension type in a field's metadata.
func extension(notes []table) []string {
	var e [2]string
	for _, note := range notes {
		switch note.text(0) {
		case "ARROW:extension:name":
			e[0] = note.text(1)
		case "ARROW:extension:metadata":
			e[1] = note.text(1)
		}
	}
	if e[0] == "" || !utf8.ValidString(e[0]+e[1]) {
		return nil
	}
	return e[:]
}

// encode converts a field with plain values to a dictionary field.
func (r *schemaReader) encode(l *layout, t table) error {
	if len(l.children) > 0 || l.node.Kind == rows.Struct || l.node.Kind == rows.List {
		return fmt.Errorf("column %.100q: %w", l.node.Name, errNested)
	}
	numbers := t.table(1)
	bits, signed := numbers.i32(0, 32), numbers.u8(1, 0) != 0
	if !t.has(1) {
		signed = true
	}
	width, known := map[int]int{8: 0, 16: 1, 32: 2, 64: 3}[bits]
	if !known || t.i16(3, 0) != 0 {
		return fmt.Errorf("column %.100q: %w", l.node.Name, errSchema)
	}
	values := *l
	values.node = &rows.Node{Name: l.node.Name, Type: l.node.Type, Kind: l.node.Kind, Size: l.node.Size, Nullable: true}
	number, _ := intType(bits, signed)
	l.node.Arrow = fmt.Sprintf("dictionary<%s, %s>", number, l.node.ArrowType())
	*l = layout{node: l.node, form: formCoded, width: width, signed: signed, id: t.i64(0), values: &values}
	for _, other := range r.coded {
		if v := other.values; other.id == l.id && (v.form != values.form || v.node.Type != values.node.Type) {
			return fmt.Errorf("columns %.100q and %.100q have one dictionary and two types: %w", v.node.Name, l.node.Name, errSchema)
		}
	}
	r.coded = append(r.coded, l)
	return nil
}

// Types with the numbers that Schema.fbs defines.
const (
	kindNull = iota + 1
	kindInt
	kindFloat
	kindBinary
	kindUTF8
	kindBool
	kindDecimal
	kindDate
	kindTime
	kindTimestamp
	kindInterval
	kindList
	kindStruct
	kindUnion
	kindFixedSizeBinary
	kindFixedSizeList
	kindMap
	kindDuration
	kindLargeBinary
	kindLargeUTF8
	kindLargeList
	kindRunEndEncoded
	kindBinaryView
	kindUTF8View
	kindListView
	kindLargeListView
)

// setType sets the type of the node and the form of its values.
func (l *layout) setType(kind int, t table) error {
	variable := map[int]struct {
		form        form
		name, arrow string
	}{
		kindBinary: {formBytes, "binary", ""}, kindUTF8: {formBytes, "utf8", ""}, kindNull: {formNull, "null", ""},
		kindLargeBinary: {formLarge, "binary", "large_binary"}, kindLargeUTF8: {formLarge, "utf8", "large_utf8"},
		kindBinaryView: {formView, "binary", "binary_view"}, kindUTF8View: {formView, "utf8", "utf8_view"},
	}
	if v, ok := variable[kind]; ok {
		l.form, l.node.Kind, l.node.Type, l.node.Arrow = v.form, rows.Bytes, v.name, v.arrow
		return nil
	}
	switch kind {
	case kindBool:
		l.form, l.node.Kind, l.node.Type, l.node.Size = formBits, rows.Fixed, "bool", 1
	case kindStruct:
		l.form, l.node.Kind, l.node.Type = formStruct, rows.Struct, "struct"
	case kindList, kindLargeList:
		l.form, l.node.Kind, l.node.Type = formList, rows.List, "list"
		if kind == kindLargeList {
			l.form, l.node.Arrow = formLists, "large_list"
		}
	case kindMap:
		l.form, l.node.Kind, l.node.Type = formList, rows.List, "map"
		if t.u8(0, 0) != 0 {
			l.node.Arrow = "map[keys_sorted]"
		}
		return l.nameEntry()
	case kindFixedSizeList:
		l.form, l.node.Kind, l.node.Type, l.count = formFixList, rows.List, "list", t.i32(0, 0)
		if l.node.Arrow = fmt.Sprintf("fixed_size_list[%d]", l.count); l.count < 0 {
			return errSchema
		}
	case kindUnion, kindRunEndEncoded, kindListView, kindLargeListView:
		return errors.New("unions, run-end encoding and list views are not supported: write the column with another type")
	default:
		if l.node.Type, l.node.Size = fixedType(kind, t); kind == kindDecimal && l.node.Size < 16 {
			l.node.Arrow = l.node.Type
		}
		if l.form, l.node.Kind = formFixed, rows.Fixed; l.node.Size <= 0 {
			return errSchema
		}
	}
	return nil
}

// nameEntry renames the two fields of a map's entries, because writers use various names.
func (l *layout) nameEntry() error {
	if len(l.children) != 1 || len(l.children[0].children) != 2 {
		return errSchema
	}
	for i, c := range l.children[0].children {
		c.node.Name = []string{"key", "value"}[i]
	}
	return nil
}

// fixedType returns the name of a fixed-size type and its size in bytes. The size is 0 if the type
// is not a valid Arrow type.
func fixedType(kind int, t table) (string, int) {
	unit := func(def int) string {
		return [...]string{"s", "ms", "us", "ns"}[t.i16(0, def)&3]
	}
	switch kind {
	case kindInt:
		return intType(t.i32(0, 0), t.u8(1, 0) != 0)
	case kindFloat:
		i := t.i16(0, 0) & 3
		return [...]string{"float16", "float", "double", ""}[i], [...]int{2, 4, 8, 0}[i]
	case kindDecimal:
		return decimalType(t.i32(2, 128), t.i32(0, 0), t.i32(1, 0))
	case kindDate:
		if t.i16(0, 1) == 0 {
			return "date32", 4
		}
		return "date64", 8
	case kindTime:
		if bits := t.i32(1, 32); bits == 32 || bits == 64 {
			return fmt.Sprintf("time%d[%s]", bits, unit(1)), bits / 8
		}
	case kindTimestamp:
		if zone := t.text(1); zone != "" {
			return fmt.Sprintf("timestamp[%s, tz=%s]", unit(0), zone), 8
		}
		return fmt.Sprintf("timestamp[%s]", unit(0)), 8
	case kindDuration:
		return fmt.Sprintf("duration[%s]", unit(1)), 8
	case kindInterval:
		i := t.i16(0, 0) & 3
		return [...]string{"interval[year_month]", "interval[day_time]", "interval[month_day_nano]", ""}[i], [...]int{4, 8, 16, 0}[i]
	case kindFixedSizeBinary:
		n := t.i32(0, 0)
		return fmt.Sprintf("fixed_size_binary[%d]", n), n
	}
	return "", 0
}

func intType(bits int, signed bool) (string, int) {
	name := "uint"
	if signed {
		name = "int"
	}
	switch bits {
	case 8, 16, 32, 64:
		return fmt.Sprintf("%s%d", name, bits), bits / 8
	}
	return "", 0
}

func decimalType(bits, precision, scale int) (string, int) {
	switch bits {
	case 32, 64, 128, 256:
		return fmt.Sprintf("decimal%d(%d, %d)", bits, precision, scale), bits / 8
	}
	return "", 0
}
