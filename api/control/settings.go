package control

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"strings"

	"whorl/api"
	"whorl/api/gen"
)

// logLevel is the setting that the routes under /logs show too.
const logLevel = "log-level"

// settings are all settings, and the name of their state.
func (a Dialect) settings() (all []gen.Setting, etag string) {
	h := sha256.New()
	for _, s := range a.Settings.List() {
		all = append(all, gen.Setting{Name: s.Name, Value: s.Value, Source: gen.SettingSource(s.Source), RequiresRestart: s.Restart})
		fmt.Fprintf(h, "%q %q %q\n", s.Name, s.Value, s.Source)
	}
	return all, `"` + hex.EncodeToString(h.Sum(nil)[:12]) + `"`
}

// GetConfig tells every setting.
func (a Dialect) GetConfig(w http.ResponseWriter, r *http.Request) {
	all, etag := a.settings()
	w.Header().Set("ETag", etag)
	replyList(a, w, r, settingTable, all, nil, nil)
}

// ChangeConfig changes settings of the running node.
func (a Dialect) ChangeConfig(w http.ResponseWriter, r *http.Request, params gen.ChangeConfigParams) {
	var patch map[string]json.RawMessage
	if err := a.ReadJSON(w, r, "SettingsPatch", &patch); err != nil {
		a.Fail(w, r, err)
		return
	}
	a.changes.Lock() // so that nobody changes anything between the comparison and the change
	defer a.changes.Unlock()
	if _, now := a.settings(); params.IfMatch != nil && *params.IfMatch != "*" && *params.IfMatch != now {
		a.Fail(w, r, api.Refused(api.CodeChanged, "the settings are others than the ETag in If-Match names: read them again"))
		return
	}
	values := map[string]*string{}
	for name, raw := range patch {
		value, err := settingText(raw)
		if err != nil {
			a.Fail(w, r, api.Invalid(api.Clip(name), "%s: %w", api.Clip(name), err))
			return
		}
		values[name] = value
	}
	if err := a.Settings.Change(values); err != nil {
		a.Fail(w, r, err)
		return
	}
	for name := range values {
		a.Log.Info("setting changed by the operator", "id", api.RequestID(r), "setting", name)
	}
	a.GetConfig(w, r)
}

// settingText is a value as a flag would have it; nil for null.
func settingText(raw json.RawMessage) (*string, error) {
	var v any
	if err := json.Unmarshal(raw, &v); err != nil {
		return nil, err
	}
	text := ""
	switch v := v.(type) {
	case nil:
		return nil, nil
	case string:
		text = v
	case bool, float64:
		text = strings.TrimSpace(string(raw))
	case []any:
		parts := make([]string, len(v))
		for i, part := range v {
			s, ok := part.(string)
			if !ok {
				return nil, fmt.Errorf("its items must be texts")
			}
			parts[i] = s
		}
		text = strings.Join(parts, ",")
	default:
		return nil, fmt.Errorf("want a text, a number, true, false, a list of texts or null")
	}
	return &text, nil
}

// GetLogLevel tells the least level that is logged.
func (a Dialect) GetLogLevel(w http.ResponseWriter, r *http.Request) {
	api.Reply(w, gen.LogLevelBody{Level: levelName(a.Settings.Level())})
}

// SetLogLevel changes it.
func (a Dialect) SetLogLevel(w http.ResponseWriter, r *http.Request) {
	var req gen.LogLevelBody
	if err := a.ReadJSON(w, r, "LogLevelBody", &req); err != nil {
		a.Fail(w, r, err)
		return
	}
	text := string(req.Level)
	if err := a.Settings.Change(map[string]*string{logLevel: &text}); err != nil {
		a.Fail(w, r, err)
		return
	}
	a.Log.Info("log level changed by the operator", "id", api.RequestID(r), "level", text)
	a.GetLogLevel(w, r)
}

func levelName(l slog.Level) gen.LogLevel { return gen.LogLevel(strings.ToLower(l.String())) }

func parseLevel(name gen.LogLevel) (slog.Level, error) {
	var l slog.Level
	if !name.Valid() || l.UnmarshalText([]byte(name)) != nil {
		return l, api.Invalid("level", "level is %q: want debug, info, warn or error", api.Clip(string(name)))
	}
	return l, nil
}
