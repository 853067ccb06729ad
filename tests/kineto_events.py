"""Events of traces of torch.profiler, and traces of them, with the fields that torch writes."""

import json


def kernel(name, begin_us, time_us, stream=7, **arguments):
    arguments = {"device": 0, "stream": stream, **arguments}
    event = {"ph": "X", "cat": "kernel", "name": name, "pid": 0, "tid": stream}
    return {**event, "ts": begin_us, "dur": time_us, "args": arguments}


def collective(name, begin_us, time_us, elements, dtype="Float", out=None, **more):
    return kernel(
        "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
        begin_us,
        time_us,
        20,
        **{
            "Collective name": name,
            "In msg nelems": elements,
            "Out msg nelems": elements if out is None else out,
            "Group size": 2,
            "dtype": dtype,
            "In split size": "[]",
            "Process Group Name": "0",
            "Process Group Description": "default_pg",
            "Process Group Ranks": "[0, 1]",
            **more,
        },
    )


def trace(events, rank=0, **more):
    info = {"backend": "nccl", "rank": rank, "world_size": 2, "nccl_version": "2.28.9"}
    whole = {"schemaVersion": 1, "distributedInfo": info, "traceEvents": events, **more}
    return json.dumps(whole).encode()
