package api

import (
	"net/http"
	"time"

	"github.com/gorilla/websocket"

	"whorl/swarm"
)

// Upgrade makes a WebSocket of a request: one of its user's, who may have so many (Sit). leave must
// be called when it is over; ok is false where the request was answered with an error.
func (a *API) Upgrade(w http.ResponseWriter, r *http.Request) (conn *websocket.Conn, user string, leave func(), ok bool) {
	if !websocket.IsWebSocketUpgrade(r) {
		w.Header().Set("Upgrade", "websocket")
		w.Header().Set("Connection", "Upgrade")
		a.Fail(w, r, Refused(CodeUpgrade, "this route speaks WebSocket only"))
		return nil, "", nil, false
	}
	user, stand, err := a.Sit(r)
	if err != nil {
		a.Fail(w, r, err)
		return nil, "", nil, false
	}
	upgrader := websocket.Upgrader{
		Subprotocols: []string{"whorl"},
		CheckOrigin:  func(*http.Request) bool { return true }, // access.go has checked it
		Error: func(w http.ResponseWriter, r *http.Request, _ int, reason error) {
			a.Fail(w, r, Refused(swarm.CodeBadRequest, "the WebSocket handshake failed: %v", reason))
		},
	}
	if conn, err = upgrader.Upgrade(w, r, http.Header{"X-Request-Id": {RequestID(r)}}); err != nil {
		stand()
		return nil, "", nil, false // answered
	}
	closed := a.SocketOpen()
	return conn, user, func() { closed(); stand() }, true
}

// Goodbye ends a WebSocket with a close code, and waits a moment until its reader has ended: closing
// before the client has answered could take the last messages from it.
func Goodbye(conn *websocket.Conn, code int, why string, read <-chan struct{}) {
	conn.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(code, why), time.Now().Add(time.Second))
	select {
	case <-read:
	case <-time.After(time.Second):
	}
}
