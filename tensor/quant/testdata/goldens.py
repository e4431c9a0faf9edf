import numpy as np, gguf, json, sys
from gguf.quants import quantize, dequantize
T=gguf.GGMLQuantizationType
rng=np.random.default_rng(7)
out=open(sys.argv[1],'w')
print("# reference values of the gguf Python package %s; remade by goldens.py beside this file" % __import__('importlib.metadata').metadata.version('gguf'),file=out)
def hexf(a): return np.ascontiguousarray(a,dtype='<f4').tobytes().hex()
for name in ["F16","BF16","Q8_0","Q4_0","Q4_1"]:
    t=T[name]
    for scale in [1.0,1e-3,300.0]:
        x=(rng.standard_normal(64)*scale).astype(np.float32)
        if scale==1.0: x[32:]=np.round(x[32:]*4)/4
        q=np.ascontiguousarray(quantize(x.reshape(1,64),t)).view(np.uint8).reshape(-1)
        y=dequantize(q.reshape(1,-1),t).reshape(-1)
        print("pack",name.lower(),hexf(x),q.tobytes().hex(),hexf(y),file=out)
sizes={"F16":2,"BF16":2,"Q8_0":34,"Q4_0":18,"Q4_1":20,"Q6_K":210}
half={"Q8_0":[0],"Q4_0":[0],"Q4_1":[0,2],"Q6_K":[208],"F16":[0],"BF16":[]}
for name,n in sizes.items():
    for rep in range(3):
        b=rng.integers(0,256,n,dtype=np.uint8)
        for o in half[name]:
            h=np.float16(rng.standard_normal()*(10.0**-rep if rep<2 else 2e-6))
            b[o:o+2]=np.frombuffer(h.tobytes(),dtype=np.uint8)
        if name=="BF16" : b[1]&=0x3f
        y=dequantize(b.reshape(1,-1),T[name]).reshape(-1)
        print("unpack",name.lower(),"-",b.tobytes().hex(),hexf(y),file=out)
# Formats that came later: their lines follow, so that those above stay.
for name,n,halves in [("Q4_K",144,[0,2]),("Q5_K",176,[0,2]),("Q5_0",22,[0])]:
    for rep in range(3):
        b=rng.integers(0,256,n,dtype=np.uint8)
        for o in halves:
            h=np.float16(rng.standard_normal()*(10.0**-rep if rep<2 else 2e-6))
            b[o:o+2]=np.frombuffer(h.tobytes(),dtype=np.uint8)
        y=dequantize(b.reshape(1,-1),T[name]).reshape(-1)
        print("unpack",name.lower(),"-",b.tobytes().hex(),hexf(y),file=out)
for scale in [1.0,1e-3,300.0]:
    x=(rng.standard_normal(64)*scale).astype(np.float32)
    if scale==1.0: x[32:]=np.round(x[32:]*4)/4
    q=np.ascontiguousarray(quantize(x.reshape(1,64),T.Q5_0)).view(np.uint8).reshape(-1)
    y=dequantize(q.reshape(1,-1),T.Q5_0).reshape(-1)
    print("pack","q5_0",hexf(x),q.tobytes().hex(),hexf(y),file=out)
