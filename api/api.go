package api

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/prometheus/client_golang/prometheus"

	"whorl/api/calls"
	"whorl/client"
	"whorl/client/grammar"
	"whorl/internal/answers"
	"whorl/internal/journal"
	"whorl/internal/keys"
	"whorl/internal/operations"
	"whorl/swarm"
	"whorl/swarm/budget"
	"whorl/swarm/health"
	"whorl/swarm/route"
	"whorl/swarm/trust"
)

// Engine generates with one model. Serve makes one of a client.Engine.
type Engine interface {
	Model() client.Model
	Encode(text string, special bool) ([]int32, error)
	EncodeChat(messages []client.Message, x client.ChatExtras) ([]int32, error)
	BadWords(texts []string) ([][]int32, error)
	Decode(ids []int32) string
	EncodeMarks(text string) ([]int32, error)
	Template() string
	Specials() map[string]string
	Grammar(s grammar.Spec) (*grammar.Grammar, error)
	Thinks() bool
	TokenText(id int32) string
	TokenBytes(id int32, first bool) []byte
	// Mean is the mean of the last hidden states of ids.
	Mean(ctx context.Context, ids []int32) ([]float32, error)
	Room(ctx context.Context, o client.SessionOptions) int
	Open(ctx context.Context, o client.SessionOptions) (Session, error)
}

// Session is a generation context; see client.Session.
type Session interface {
	ID() string
	IDs() []int32
	Generate(ctx context.Context, r client.Request, emit func(client.Delta) error) (client.Result, error)
	Truncate(pos int) error
	// Keep puts ids behind the session's text.
	Keep(ids []int32) error
	Close() error
}

// Node tells of this node. Safe for concurrent use, and fast: no network.
type Node interface {
	Status() swarm.NodeStatus
	Sessions() []swarm.SessionStatus
	Peers() []swarm.PeerStatus
	Blocks() []swarm.BlockStatus
	// Standings are what the node observed of others, avoided ones first.
	Standings() []trust.Standing
	// Ready holds one entry per check, nil where all is well.
	Ready() map[string]error
}

// Tasks are changes of this node that take a while. Each method does at once what others must see
// at once, refuses what cannot be done, and returns the work that is left.
type Tasks interface {
	// Drain stops new sessions. Its work ends when no session is left; those that run may go on
	// for so long, or for as long as the node is used to if that is 0. Cancelled it takes
	// sessions again.
	Drain(reason string, within time.Duration) (operations.Work, error)
	// Restart loads the node's blocks anew.
	Restart() (operations.Work, error)
	// Rebalance moves the node to where its blocks are worth more, or to a span if one is named.
	// The result of its work is a swarm.Placement.
	Rebalance(to *swarm.Span) (operations.Work, error)
	// Benchmark measures the node's blocks, each kind of step for so long. The result of its work
	// is a swarm.Benchmark.
	Benchmark(each time.Duration) (operations.Work, error)
	// Shutdown begins the end of the process; its work ends with that.
	Shutdown() (operations.Work, error)
}

// Adapting changes which LoRA adapters the node's blocks hold, as Tasks does.
type Adapting interface {
	// Adapters are those that are held, those that are leaving included.
	Adapters() []swarm.AdapterStatus
	// LoadAdapter loads one from a folder, or from the hub by its name. The result of its work is a
	// swarm.Adapter.
	LoadAdapter(source string) (operations.Work, error)
	// UnloadAdapter gives one up once no session uses it; cancelled it is offered again.
	UnloadAdapter(name string) (operations.Work, error)
}

// Control changes this node at once.
type Control interface {
	// Resume takes sessions again.
	Resume() error
	// Consider decides whether other blocks need the node more, and does nothing.
	Consider(ctx context.Context) (swarm.Placement, error)
	// Invite makes an invitation to the node's swarm.
	Invite() (Invitation, error)
	// Ban avoids a peer for a time, and has running sessions leave it.
	Ban(p swarm.PeerID, long time.Duration, reason string)
	// Pardon forgets all that is held against a peer; false if nothing was.
	Pardon(p swarm.PeerID) bool
	// KillSession ends a session; an unknown id is an error of code no_session.
	KillSession(id string) error
}

// Invitation is a word that leads others to a swarm, and what it says.
type Invitation struct {
	Word, Swarm, Manifest, Model string
	Peers                        []string
	Secret                       bool // the word holds the key of a private swarm
}

// Directory tells of the swarm.
type Directory interface {
	// Views are snapshots of all models known, in the order of names, then ids.
	Views() []swarm.View
}

// Peering reaches other nodes.
type Peering interface {
	// Ping measures the round trip to a peer, at the addresses that it announced.
	Ping(ctx context.Context, p swarm.PeerID) (time.Duration, error)
	// Connect dials a node at a multiaddress that ends with its peer id.
	Connect(ctx context.Context, addr string) (swarm.PeerID, error)
	// Disconnect closes the connections to a peer; false if there are none.
	Disconnect(p swarm.PeerID) bool
}

// Routes says how sessions would go through the swarm. Safe for concurrent use.
type Routes interface {
	// Explain plans a session of so many positions, and says why not otherwise.
	Explain(ctx context.Context, model swarm.UID, positions int) (route.Explanation, error)
}

// Setting is one value that a node runs with.
type Setting struct {
	Name    string // as that of a flag
	Value   string // as a flag would have it; of a secret only whether there is one
	Source  string // default, file, env, flag or api
	Restart bool   // it can only be changed by starting the node anew
}

// Settings are what the node runs with. Safe for concurrent use.
type Settings interface {
	// List is in the order of names.
	List() []Setting
	// Change sets all values or none; nil goes back to what the node was started with.
	Change(values map[string]*string) error
	// Level is the least level that is logged.
	Level() slog.Level
}

// Past is one moment of a model's history.
type Past struct {
	At time.Time
	health.Coverage
}

// Happening is an event of the swarm's history.
type Happening struct {
	ID        int64
	At        time.Time
	Kind      string
	Model     swarm.UID
	ModelName string
	Peer      swarm.PeerID
	Name      string // that the server shows
	Span      *swarm.Span
	Detail    string
}

// History is the past of the swarm, as this node sampled it. Safe for concurrent use.
type History interface {
	// Coverage is oldest first; each step is told by its worst moment.
	Coverage(ctx context.Context, model swarm.UID, from, to time.Time, step time.Duration) ([]Past, error)
	// Events are newest first, at most limit, older than the one with the id before if that is
	// not 0; of all models and peers where those are "".
	Events(ctx context.Context, model swarm.UID, peer swarm.PeerID, before int64, limit int) ([]Happening, error)
}

// Listener is what the handler of one listener needs to know of it.
type Listener struct {
	// Token is asked for, if not empty, on all routes but those about liveness and the
	// swarm. A listener beyond loopback must have one, or Keys (CheckListen).
	Token string
	// Keys are asked for, or the token, if true (Config.Keys).
	Keys bool
	// Hosts are further names in Host headers, beside loopback and the listener's own
	// address: the names a proxy or a port mapping is reached by.
	Hosts []string
	// Origins are sites whose pages may use the inference routes, such as
	// "https://chat.example.org"; "*" for all. Pages of loopback always may.
	Origins []string
}

// Caps are limits that may change while the node runs.
type Caps struct {
	Answers   int     // to one prompt
	Sockets   int     // WebSockets of one user: an address
	UserCache float64 // share of a model's cache that the sockets of one user may hold, beyond a first session
}

// Limits of requests. Zero fields take the defaults.
type Limits struct {
	Caps
	BodyBytes    int64         // of a request body
	Body         time.Duration // that a body may take to come
	FrameBytes   int64         // of a WebSocket frame
	Queue        int           // WebSocket frames waiting to be worked on
	Choices      int           // answers of one request that are worked on at a time
	Beams        int           // of one search: servers reserve cache for each
	AnswerTokens int           // of a chat answer whose request sets no limit
	Timeout      time.Duration // of a request that sets none
	KeepAlive    time.Duration // of silence in an event stream before a comment
	Ping         time.Duration // between WebSocket pings
	Idle         time.Duration // of a WebSocket with nothing to do, before it is closed
	Write        time.Duration // a reader may keep us waiting, of an event stream in all, before it is dropped
	RowBytes     int64         // of memory for rows and gradients of all users (RowBytes)
}

// DefaultLimits follow the Petals gateway where it has the number (ping, idle), and
// client libraries (10 min) otherwise.
func DefaultLimits() Limits {
	return Limits{
		BodyBytes: 8 << 20, Body: time.Minute, FrameBytes: 1 << 20, Queue: 16, Choices: 4, Beams: 8, AnswerTokens: 512, Timeout: 10 * time.Minute,
		KeepAlive: 10 * time.Second, Ping: 25 * time.Second, Idle: 300 * time.Second, Write: 30 * time.Second, RowBytes: RowBytes(0), Caps: Caps{Answers: 16, Sockets: 32, UserCache: 0.5},
	}
}

func (l Limits) withDefaults() Limits {
	d := DefaultLimits()
	fill(&l.BodyBytes, d.BodyBytes)
	fill(&l.Body, d.Body)
	fill(&l.FrameBytes, d.FrameBytes)
	fill(&l.Queue, d.Queue)
	fill(&l.Choices, d.Choices)
	fill(&l.Answers, d.Answers)
	fill(&l.Beams, d.Beams)
	fill(&l.AnswerTokens, d.AnswerTokens)
	fill(&l.Timeout, d.Timeout)
	fill(&l.KeepAlive, d.KeepAlive)
	fill(&l.Ping, d.Ping)
	fill(&l.Idle, d.Idle)
	fill(&l.Write, d.Write)
	fill(&l.RowBytes, d.RowBytes)
	fill(&l.Sockets, d.Sockets)
	fill(&l.UserCache, d.UserCache)
	return l
}

func fill[T int | int64 | float64 | time.Duration](v *T, d T) {
	if *v == 0 {
		*v = d
	}
}

// Config is what an API needs. All interfaces are required.
type Config struct {
	// Engines are the models that requests may name, by Model().Name.
	Engines func() []Engine
	// Aliases are other names of models, with or without adapters: a model of that name goes first.
	Aliases map[string]string
	// Adapters are those that users may ask for as "MODEL:NAME", and that are listed as
	// models; one without a digest stands for any of its name. nil for none.
	Adapters   func() []swarm.Adapter
	Node       Node
	Control    Control
	Tasks      Tasks
	Adapting   Adapting
	Directory  Directory
	Peering    Peering
	Routes     Routes
	Settings   Settings
	History    History // nil for none
	Operations *operations.Set
	// Events and Logs are what can be followed; nil for nothing.
	Events, Logs *journal.Log
	// Kept are the answers of Responses that callers may go on from; nil for a shelf in memory.
	Kept answers.Shelf
	// Keys are those of callers; nil for none.
	Keys *keys.Ring
	// Registry gets this package's metrics and is what /metrics shows; nil for a new one.
	Registry *prometheus.Registry
	Public   Listener
	Admin    Listener
	// Verify is how many chains compute an answer whose request does not say; 0 counts as 1.
	Verify int
	// ToolFormat is how the models call tools (calls.Names); "" for what their templates tell.
	ToolFormat string
	// Ollama turns the routes of the contract's option "ollama" on.
	Ollama bool
	// Pages serves what no route of the public handler matches: the dashboard. nil for none.
	Pages http.Handler
	// AdminPages serves what no route of the admin handler matches, where that is /, /reference,
	// /keys or below /static. nil for none.
	AdminPages http.Handler
	Limits     Limits
	Log        *slog.Logger // nil for the default
	// Exempt are address prefixes without a common share of budgets; nil for loopback.
	Exempt []netip.Prefix
}

// API is what all dialects share. Safe for concurrent use.
type API struct {
	Config
	doc     *openapi3.T
	rules   *rules
	forms   map[string]Form
	metrics *metrics
	users   *users
	guesses *guesses
	bodies  *bodies
	rows    *budget.Pool // bytes of rows and gradients
	replays *replays
	braces  sync.Map // by UID: the tokens of models that hold a brace, as []brace
	caps    atomic.Pointer[Caps]
}

// New makes an API; it starts nothing. forms are how failures are written, by the names that the
// contract has for them (x-errors).
func New(cfg Config, forms map[string]Form) (*API, error) {
	if cfg.Engines == nil || cfg.Node == nil || cfg.Control == nil || cfg.Tasks == nil || cfg.Adapting == nil || cfg.Operations == nil || cfg.Directory == nil || cfg.Peering == nil || cfg.Routes == nil || cfg.Settings == nil {
		return nil, errors.New("api: engines, node, control, tasks, adapting, operations, directory, peering, routes and settings are required")
	}
	if _, err := calls.Named(cfg.ToolFormat); cfg.ToolFormat != "" && err != nil {
		return nil, fmt.Errorf("api: %w", err)
	}
	if cfg.Registry == nil {
		cfg.Registry = prometheus.NewRegistry()
	}
	if cfg.Adapters == nil {
		cfg.Adapters = func() []swarm.Adapter { return nil }
	}
	if cfg.Kept == nil {
		cfg.Kept = answers.NewMemory(answers.MemoryLimits())
	}
	if cfg.Events == nil {
		cfg.Events = journal.New(1, 1<<10)
	}
	if cfg.Logs == nil {
		cfg.Logs = journal.New(1, 1<<10)
	}
	if cfg.Log == nil {
		cfg.Log = slog.Default()
	}
	doc, err := document()
	if err != nil {
		return nil, fmt.Errorf("api: openapi.yaml: %w", err)
	}
	rules, err := readRules(doc)
	if err != nil {
		return nil, fmt.Errorf("api: openapi.yaml: %w", err)
	}
	for name := range rules.forms() {
		if forms[name] == nil {
			return nil, fmt.Errorf("api: openapi.yaml: there is no form %q for errors", name)
		}
	}
	if !cfg.Ollama {
		rules.turnOff("ollama")
	}
	cfg.Limits = cfg.Limits.withDefaults()
	a := &API{Config: cfg, doc: doc, rules: rules, forms: forms, users: newUsers(), guesses: newGuesses(), bodies: newBodies(cfg.Exempt), rows: budget.New("bytes of rows and gradients", cfg.Limits.RowBytes), replays: newReplays()}
	a.caps.Store(&a.Limits.Caps)
	if a.metrics, err = newMetrics(cfg.Registry); err != nil {
		return nil, fmt.Errorf("api: metrics: %w", err)
	}
	if cfg.Keys != nil {
		if err := register(cfg.Registry, &keyMetrics{cfg.Keys}); err != nil {
			return nil, fmt.Errorf("api: metrics: %w", err)
		}
	}
	for _, pool := range []**budget.Pool{&a.bodies.bytes, &a.rows} {
		if err := register(cfg.Registry, pool); err != nil {
			return nil, fmt.Errorf("api: metrics: %w", err)
		}
	}
	return a, nil
}

// Cap changes limits. Who is over a lower one stays.
func (a *API) Cap(change func(*Caps)) {
	c := *a.caps.Load() // one caller at a time: whoever changes settings
	change(&c)
	a.caps.Store(&c)
}

// Document is the contract, which nobody changes.
func (a *API) Document() *openapi3.T { return a.doc }

// Serve makes an Engine of a client's.
func Serve(e *client.Engine) Engine { return served{e} }

type served struct{ *client.Engine }

func (s served) Open(ctx context.Context, o client.SessionOptions) (Session, error) {
	session, err := s.Engine.Open(ctx, o)
	if err != nil {
		return nil, err // not a nil pointer in a Session
	}
	return session, nil
}

// Engine finds the model that a request names, and has it in memory until the request has ended.
func (a *API) Engine(ctx context.Context, name string) (Engine, error) {
	e, err := a.Find(name)
	if err != nil {
		return nil, err
	}
	return awake(ctx, e)
}

// Find finds the model that a request names, with an adapter if the name has one, whether or not
// it is in memory. No name will do where one model is served.
func (a *API) Find(name string) (Engine, error) {
	all := a.Engines()
	if to, ok := a.Aliases[name]; ok && !slices.ContainsFunc(all, func(e Engine) bool { return e.Model().Name == name }) {
		name = to
	}
	if own := bases(all); name == "" && len(own) == 1 {
		return own[0], nil
	}
	names := make([]string, len(all))
	for i, e := range all {
		if names[i] = e.Model().Name; names[i] == name {
			return e, nil
		}
	}
	if e, ok := a.byAdapter(all, name); ok {
		return e, nil
	}
	if name == "" && len(all) > 1 {
		return nil, Invalid("model", "model is missing: this gateway serves %q", names)
	}
	for _, e := range all {
		for _, x := range a.AdaptedBy(e) {
			names = append(names, x.Model().Name)
		}
	}
	return nil, &paramError{"model", swarm.Errorf(swarm.CodeNotServed, swarm.Caller, "the model %q is not served here: this gateway serves %q", Clip(name), names)}
}

// Clip shortens foreign text for a message.
func Clip(s string) string {
	if len(s) > 100 {
		return s[:100] + "…"
	}
	return s
}
