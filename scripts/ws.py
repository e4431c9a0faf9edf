#!/usr/bin/env python3
"""Stream one chat answer over whorl's WebSocket, with the standard library alone.

usage: ws.py URL [PROMPT]      such as  ws.py ws://127.0.0.1:8300/api/v2/generate "Hello"
"""
import base64, json, os, socket, struct, sys
from urllib.parse import urlparse
from urllib.request import urlopen


def send(sock, message):
    data, mask = json.dumps(message).encode(), os.urandom(4)
    n = len(data)
    head = b"\x81" + (bytes([0x80 | n]) if n < 126 else b"\xfe" + struct.pack(">H", n))
    sock.sendall(head + mask + bytes(b ^ mask[i % 4] for i, b in enumerate(data)))


def receive(stream, sock):
    while True:
        first, n = stream.read(2)
        n &= 0x7F
        if n >= 126:
            n = int.from_bytes(stream.read(2 if n == 126 else 8), "big")
        data = stream.read(n)
        if first & 0x0F == 0x1:
            return json.loads(data)
        if first & 0x0F == 0x9:  # ping
            sock.sendall(b"\x8a\x80" + os.urandom(4))
        elif first & 0x0F == 0x8:
            sys.exit("the gateway closed the connection: " + data[2:].decode())


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    url = urlparse(sys.argv[1])
    prompt = sys.argv[2] if len(sys.argv) > 2 else "Who are you?"
    models = json.load(urlopen(f"http://{url.netloc}/v1/models"))["data"]
    sock = socket.create_connection((url.hostname, url.port or 80))
    key = base64.b64encode(os.urandom(16)).decode()
    sock.sendall(
        f"GET {url.path} HTTP/1.1\r\nHost: {url.netloc}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        f"Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n\r\n".encode()
    )
    stream = sock.makefile("rb")
    status = stream.readline().decode().strip()
    while stream.readline() not in (b"\r\n", b""):
        pass
    if " 101 " not in status:
        sys.exit(f"no WebSocket at {sys.argv[1]}: {status}")
    send(sock, {"type": "open_inference_session", "model": models[0]["id"], "max_length": 512})
    send(sock, {"type": "generate", "messages": [{"role": "user", "content": prompt}], "max_new_tokens": 128, "stream": True})
    while True:
        frame = receive(stream, sock)
        if not frame["ok"]:
            sys.exit(frame["traceback"])
        print(frame.get("outputs", ""), end="", flush=True)
        if frame.get("stop"):
            print()
            return


main()
