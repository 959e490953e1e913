# The steps of MindSpore's tutorial "Performing Cloud-side Distributed Inference Using Python Interface", put together
# to one script. Copyright Huawei Technologies Co., Ltd., Apache License 2.0.
#
# Ascend, each rank started by hand; config_file.ini names the rank table:
#   pinnace exec examples/distributed_inference.py --model_path=Matmul0.mindir --device_id=0 --rank_id=0 --config_file=config_file.ini &
#   pinnace exec examples/distributed_inference.py --model_path=Matmul1.mindir --device_id=1 --rank_id=1 --config_file=config_file.ini
# GPU, started by MPI:
#   mpirun -n 2 pinnace exec examples/distributed_inference.py --model_path=Matmul.mindir
# Without such devices: PINNACE_SIMULATE=ascend:2 or gpu:2 in the environment.

import argparse
import numpy as np
import mindspore_lite as mslite

parser = argparse.ArgumentParser()
parser.add_argument("--model_path")
parser.add_argument("--device_id", type=int)
parser.add_argument("--rank_id", type=int)
parser.add_argument("--config_file", default="")
args = parser.parse_args()

# init context
context = mslite.Context()
if args.rank_id is not None:
    # set Ascend target and distributed info
    context.target = ["Ascend"]
    context.ascend.device_id = args.device_id
    context.ascend.rank_id = args.rank_id
    context.ascend.provider = "ge"
else:
    # set GPU target and distributed info
    context.target = ["gpu"]
    context.gpu.device_id = context.gpu.rank_id
    context.gpu.provider = "tensorrt"

# create Model and build Model
model = mslite.Model()
model.build_from_file(args.model_path, mslite.ModelType.MINDIR, context, args.config_file)

# set model input as ones
inputs = model.get_inputs()
for input_i in inputs:
    input_i.set_data_from_numpy(np.ones(input_i.shape, dtype=np.float32))

# execute inference
outputs = model.predict(inputs)

# get output and print
for output in outputs:
    name = output.name.rstrip()
    data_size = output.data_size
    element_num = output.element_num
    print("tensor's name is:%s data size is:%s tensor elements num is:%s" %
          (name, data_size, element_num))
    data = output.get_data_to_numpy()
    data = data.flatten()
    print("output data is:", end=" ")
    for i in range(10):
        print(data[i], end=" ")
    print("")
