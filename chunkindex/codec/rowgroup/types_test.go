package rowgroup

import "testing"

// TestTypeName_ConvertedTypes checks that the converted types of older files correspond to logical
// types.
func TestTypeName_ConvertedTypes(t *testing.T) {
	for _, c := range []struct {
		e    element
		want string // type and logical type
	}{
		{element{physical: physInt32, converted: 11}, "uint32 uint8"},
		{element{physical: physInt32, converted: 12}, "uint32 uint16"},
		{element{physical: physInt32, converted: 13}, "uint32 "},
		{element{physical: physInt64, converted: 14}, "uint64 "},
		{element{physical: physInt32, converted: 15}, "int32 int8"},
		{element{physical: physInt32, converted: 16}, "int32 int16"},
		{element{physical: physInt32, converted: 17}, "int32 "},
		{element{physical: physBytes, converted: 0}, "utf8 "},
		{element{physical: physBytes, converted: 4}, "utf8 enum"},
		{element{physical: physBytes, converted: 5, precision: 20, scale: 3}, "binary decimal128(20, 3)"},
		{element{physical: physFixed, converted: 5, length: 17, precision: 39}, "fixed_size_binary[17] decimal256(39, 0)"},
		{element{physical: physInt32, converted: 5, precision: 9, scale: 2}, "decimal32(9, 2) "},
		{element{physical: physBytes, converted: 19}, "utf8 json"},
		{element{physical: physBytes, converted: 20}, "binary bson"},
		{element{physical: physFixed, converted: 21, length: 12}, "fixed_size_binary[12] interval"},
		{element{physical: physInt96, converted: -1}, "fixed_size_binary[12] timestamp[ns]"},
		{element{physical: physFixed, converted: -1, length: 16, logical: logical{kind: logicalUUID}}, "fixed_size_binary[16] uuid"},
		{element{physical: physInt64, converted: -1, logical: logical{kind: logicalInteger, bits: 8}}, "uint64 "}, // no valid file contains this combination
	} {
		if got := c.e.typeName() + " " + c.e.logicalName(); got != c.want {
			t.Errorf("%+v: got %q, want %q", c.e, got, c.want)
		}
	}
}
