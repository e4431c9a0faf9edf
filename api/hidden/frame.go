package hidden

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"whorl/api"
	"whorl/api/gen"
	"whorl/swarm"
	"whorl/swarm/codec"
)

// maxHeader is the most bytes of a header.
const maxHeader = 64 << 10

// readHeader reads the header of a message. An error breaks the protocol.
func readHeader(r io.Reader) ([]byte, error) {
	var size [4]byte
	if _, err := io.ReadFull(r, size[:]); err != nil {
		return nil, broken(err, "a message has no header: want its length in four bytes, and JSON")
	}
	n := binary.LittleEndian.Uint32(size[:])
	if n > maxHeader {
		return nil, api.Refused(api.CodeFrame, "a header of %d bytes: want at most %d", n, maxHeader)
	}
	b := make([]byte, n)
	if _, err := io.ReadFull(r, b); err != nil {
		return nil, broken(err, "a message ends within its header")
	}
	return b, nil
}

// broken is what a message that ends too early is; other errors of a connection stay what they are.
func broken(err error, what string) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return api.Refused(api.CodeFrame, "%s", what)
	}
	return err
}

// parse reads a header. An error breaks the protocol.
func parse(a *api.API, header []byte) (gen.HiddenRequest, error) {
	var q gen.HiddenRequest
	var fields map[string]json.RawMessage
	unknown, err := a.Decode(header, "HiddenRequest", &q, &fields)
	if err != nil {
		return q, api.Refused(api.CodeFrame, "a header: %v", err)
	}
	if len(unknown) > 0 {
		return q, api.Refused(api.CodeFrame, "a header has the unknown field %q", api.Clip(unknown[0]))
	}
	for name, v := range fields {
		if !strings.Contains(fieldsOf[q.Type], " "+name+" ") && string(v) != "null" {
			return q, api.Refused(api.CodeFrame, "a header of the type %s has the field %s, which says nothing there", q.Type, name)
		}
	}
	return q, nil
}

// fieldsOf are the fields that mean something in a header.
var fieldsOf = map[gen.HiddenRequestType]string{
	gen.HiddenRequestTypeOpen:           " id type timeout_ms dtype blocks max_length batch prompt shared activations ",
	gen.HiddenRequestTypeStep:           " id type timeout_ms dtype lengths last ",
	gen.HiddenRequestTypeTruncate:       " id type positions ",
	gen.HiddenRequestTypeClose:          " id type ",
	gen.HiddenRequestTypeForward:        " id type timeout_ms dtype blocks max_length lengths prompt shared ",
	gen.HiddenRequestTypeBackward:       " id type timeout_ms dtype blocks max_length lengths prompt shared ",
	gen.HiddenRequestTypeEmbed:          " id type dtype rows ",
	gen.HiddenRequestTypeNorm:           " id type dtype rows ",
	gen.HiddenRequestTypeNormBackward:   " id type dtype rows ",
	gen.HiddenRequestTypeLogits:         " id type dtype rows activations ",
	gen.HiddenRequestTypeLogitsBackward: " id type dtype rows ",
	gen.HiddenRequestTypeLoss:           " id type dtype rows grad ",
}

// request is a message that was read.
type request struct {
	gen.HiddenRequest
	size                 size
	rows, grads, prompts []float32
	ids                  []int32
	err                  error // there is no more to it than that, and its id
	free                 func()
}

// codecOf is how rows travel.
func codecOf(dtype *gen.HiddenRequestDtype) uint8 {
	if dtype != nil && *dtype == gen.HiddenRequestDtypeBf16 {
		return codec.BF16
	}
	return codec.F32
}

// readStep is how many bytes of numbers are read at a time: they are decoded at once, so that a
// message is not held twice.
const readStep = 32 << 10

// read reads the numbers of a message, whose memory was taken, and nothing behind them.
func (q *request) read(r io.Reader) error {
	in := numbers{r: r, buf: make([]byte, readStep), want: q.size.values}
	c := codecOf(q.Dtype)
	q.rows, q.grads, q.prompts = in.floats(q.size.rows, c), in.floats(q.size.grads, c), in.floats(q.size.prompts, c)
	q.ids = in.ids(q.size.ids)
	if in.err != nil {
		return in.err
	}
	if n, err := io.CopyN(io.Discard, r, 1); n > 0 || err != io.EOF {
		if n == 0 {
			return err
		}
		return api.Invalid("", "there is more behind a header of the type %s than the %d values that it announces", q.Type, q.size.values)
	}
	for _, v := range [][]float32{q.rows, q.grads, q.prompts} {
		if !codec.Finite(v) {
			return api.Invalid("", "the rows behind a header of the type %s have values that are not finite", q.Type)
		}
	}
	return nil
}

// numbers reads values of known numbers. The first error sticks.
type numbers struct {
	r    io.Reader
	buf  []byte
	want int // of all, for the error
	err  error
}

func (in *numbers) each(n, width int, do func(b []byte)) {
	for n > 0 && in.err == nil {
		k := min(n, len(in.buf)/width)
		b := in.buf[:k*width]
		if _, err := io.ReadFull(in.r, b); err != nil {
			in.err = short(err, in.want)
			return
		}
		do(b)
		n -= k
	}
}

func short(err error, want int) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return api.Invalid("", "there is less behind the header than the %d values that it announces", want)
	}
	return err
}

func (in *numbers) floats(n int, c uint8) []float32 {
	if n == 0 || in.err != nil {
		return nil
	}
	out := make([]float32, 0, n)
	in.each(n, codec.Size(c, 1), func(b []byte) {
		out, in.err = codec.Decode(out, c, b, len(b)/codec.Size(c, 1))
	})
	return out
}

func (in *numbers) ids(n int) []int32 {
	if n == 0 || in.err != nil {
		return nil
	}
	out := make([]int32, 0, n)
	in.each(n, 4, func(b []byte) {
		for ; len(b) > 0; b = b[4:] {
			out = append(out, int32(binary.LittleEndian.Uint32(b)))
		}
	})
	return out
}

// reply is a message that is to be sent: its header, and numbers in float32 unless it says bf16.
type reply struct {
	gen.HiddenReply
	losses []float32 // float32 whatever the header says
	values [][]float32
}

// encode is a message on the wire; the values may be changed by it.
func (p *reply) encode() ([]byte, error) {
	header, err := json.Marshal(p.HiddenReply)
	if err != nil {
		return nil, err
	}
	c, size := codec.F32, 4+len(header)+4*len(p.losses)
	if p.Dtype != nil && *p.Dtype == gen.HiddenReplyDtypeBf16 {
		c = codec.BF16
	}
	for _, v := range p.values {
		if size += codec.Size(c, len(v)); c == codec.BF16 {
			if codec.Round(v); !codec.Finite(v) {
				return nil, swarm.Errorf(swarm.CodeBadRequest, swarm.Caller, "a value of the answer is beyond what bfloat16 holds: ask for f32")
			}
		}
	}
	b := binary.LittleEndian.AppendUint32(make([]byte, 0, size), uint32(len(header)))
	b = codec.Append(append(b, header...), codec.F32, p.losses)
	for _, v := range p.values {
		b = codec.Append(b, c, v)
	}
	if len(b) != size {
		return nil, fmt.Errorf("a message of %d bytes, want %d", len(b), size)
	}
	return b, nil
}
