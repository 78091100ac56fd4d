package rowgroup

import "fmt"

// typeName returns the Arrow type of a column. Arrow's layout of this type must equal the stored
// bytes. If Arrow would narrow or reverse a type, typeName returns the type of the stored bytes:
// int32 for an 8-bit INT32, fixed_size_binary for a decimal in FIXED_LEN_BYTE_ARRAY. Booleans are
// an exception: they need one byte here.
func (e *element) typeName() string {
	l := e.told()
	switch e.physical {
	case physBoolean:
		return "bool"
	case physInt32:
		return int32Name(l)
	case physInt64:
		return int64Name(l)
	case physFloat:
		return "float"
	case physDouble:
		return "double"
	case physBytes:
		if l.kind == logicalString || l.kind == logicalEnum || l.kind == logicalJSON {
			return "utf8"
		}
		return "binary"
	case physFixed:
		if l.kind == logicalFloat16 && e.length == 2 {
			return "float16"
		}
		return fmt.Sprintf("fixed_size_binary[%d]", e.length)
	}
	return "fixed_size_binary[12]" // INT96
}

// told returns the logical type. It converts an older annotation if necessary.
func (e *element) told() logical {
	if e.logical.kind == 0 {
		return e.older()
	}
	return e.logical
}

// logicalName returns the logical type of a column if Arrow's layout of this type differs from the
// stored bytes. It returns "" if typeName is sufficient.
func (e *element) logicalName() string {
	l := e.told()
	number := e.physical == physInt32 || e.physical == physInt64
	switch {
	case e.physical == physInt96:
		return "timestamp[ns]"
	case l.kind == logicalInteger && e.physical == physInt32 && (l.bits == 8 || l.bits == 16):
		if l.signed {
			return fmt.Sprintf("int%d", l.bits)
		}
		return fmt.Sprintf("uint%d", l.bits)
	case l.kind == logicalDecimal && !number && l.precision > 38:
		return fmt.Sprintf("decimal256(%d, %d)", l.precision, l.scale)
	case l.kind == logicalDecimal && !number:
		return fmt.Sprintf("decimal128(%d, %d)", l.precision, l.scale)
	case l.kind == logicalEnum && e.physical == physBytes:
		return "enum"
	case l.kind == logicalJSON && e.physical == physBytes:
		return "json"
	case l.kind == logicalBSON && e.physical == physBytes:
		return "bson"
	case l.kind == logicalUUID && e.physical == physFixed && e.length == 16:
		return "uuid"
	case l.kind == logicalInterval && e.physical == physFixed && e.length == 12:
		return "interval"
	case l.kind == logicalNull:
		return "null"
	}
	return ""
}

func int32Name(l logical) string {
	switch {
	case l.kind == logicalInteger && !l.signed:
		return "uint32"
	case l.kind == logicalDecimal:
		return fmt.Sprintf("decimal32(%d, %d)", l.precision, l.scale)
	case l.kind == logicalDate:
		return "date32"
	case l.kind == logicalTime && l.unit == 1:
		return "time32[ms]"
	}
	return "int32"
}

func int64Name(l logical) string {
	unit := [...]string{"", "ms", "us", "ns"}[min(max(l.unit, 0), 3)]
	switch {
	case l.kind == logicalInteger && !l.signed:
		return "uint64"
	case l.kind == logicalDecimal:
		return fmt.Sprintf("decimal64(%d, %d)", l.precision, l.scale)
	case l.kind == logicalTime && l.unit > 1:
		return "time64[" + unit + "]"
	case l.kind == logicalTimestamp && unit != "" && l.utc:
		return "timestamp[" + unit + ", tz=UTC]"
	case l.kind == logicalTimestamp && unit != "":
		return "timestamp[" + unit + "]"
	}
	return "int64"
}

// older returns the logical type that corresponds to a converted type.
func (e *element) older() logical {
	return map[int64]logical{
		0:  {kind: logicalString},
		4:  {kind: logicalEnum},
		5:  {kind: logicalDecimal, scale: e.scale, precision: e.precision},
		6:  {kind: logicalDate},
		7:  {kind: logicalTime, unit: 1},
		8:  {kind: logicalTime, unit: 2},
		9:  {kind: logicalTimestamp, unit: 1, utc: true},
		10: {kind: logicalTimestamp, unit: 2, utc: true},
		11: {kind: logicalInteger, bits: 8},
		12: {kind: logicalInteger, bits: 16},
		13: {kind: logicalInteger, bits: 32},
		14: {kind: logicalInteger, bits: 64},
		15: {kind: logicalInteger, bits: 8, signed: true},
		16: {kind: logicalInteger, bits: 16, signed: true},
		17: {kind: logicalInteger, bits: 32, signed: true},
		18: {kind: logicalInteger, bits: 64, signed: true},
		19: {kind: logicalJSON},
		20: {kind: logicalBSON},
		21: {kind: logicalInterval},
	}[e.converted]
}
