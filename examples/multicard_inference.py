# The code of MindSpore's tutorial "Performing Ascend Backend Multi-card/Multi-core Inference Using Python Interfaces",
# put together from the pieces that stand there: what is between them is ours. Copyright Huawei Technologies Co., Ltd.,
# Apache License 2.0.
# Run it from the folder above this one, on two Ascend devices, or on two that are simulated:
# PINNACE_SIMULATE="ascend:2" pinnace exec examples/multicard_inference.py [FILE.npy]

import logging
import sys
import time
from multiprocessing import Pipe, Process
import numpy as np
import mindspore_lite as mslite

# define message id
ERROR = 0
PREDICT = 1
REPLY = 2
BUILD_FINISH = 3
EXIT = 4


class MSLitePredict:
    def __init__(self, mindir_file, device_id):
        # init and set context
        context = mslite.Context()
        context.target = ["ascend"]
        context.ascend.device_id = device_id

        # create Model and build Model
        model = mslite.Model()
        model.build_from_file(mindir_file, mslite.ModelType.MINDIR, context)
        self.model = model

    def run(self, input_data):
        model = self.model
        # set model input
        inputs = model.get_inputs()
        for i, _input in enumerate(inputs):
            _input.set_data_from_numpy(input_data[i])

        # execute inference
        outputs = model.predict(inputs)
        return [output.get_data_to_numpy() for output in outputs]


def predict_process_func(pipe_child_end, model_path, device_id):
    # subprocess init and build model using MSLitePredict
    try:
        predict_worker = MSLitePredict(model_path, device_id)
        pipe_child_end.send((BUILD_FINISH, ""))
    except Exception as e:
        logging.exception(e)
        pipe_child_end.send((ERROR, str(e)))
        raise

    while True:
        # model predict in subprocess
        msg_type, msg = pipe_child_end.recv()
        if msg_type == EXIT:
            print(f"Receive exit message {msg} and start to exit", flush=True)
            break
        if msg_type != PREDICT:
            raise RuntimeError(f"Expect to receive EXIT or PREDICT message for child process!")
        inputs = msg
        result = predict_worker.run(inputs)
        pipe_child_end.send((REPLY, result))


class ParallelPredictUtils:
    # main process init
    def __init__(self, model_path, device_num):
        self.model_path = model_path
        self.device_num = device_num
        self.pipe_parent_end = []
        self.pipe_child_end = []
        self.process = []
        for _ in range(device_num):
            pipe_end_0, pipe_end_1 = Pipe()
            self.pipe_parent_end.append(pipe_end_0)
            self.pipe_child_end.append(pipe_end_1)

    def build_model(self):
        for device_id in range(self.device_num):
            # create subprocess
            process = Process(target=predict_process_func,
                              args=(self.pipe_child_end[device_id], self.model_path, device_id,))
            process.start()
            self.process.append(process)

        for i in range(self.device_num):
            msg_type, msg = self.pipe_parent_end[i].recv()
            if msg_type == ERROR:
                raise RuntimeError(f"Failed to build model, exception occur: {msg}")
            assert msg_type == BUILD_FINISH
            print(f"Success to build model {i}", flush=True)

    def predict(self, inputs):
        # send PREDICT command to subprocess and receive result
        result = []
        for i in range(self.device_num):
            self.pipe_parent_end[i].send((PREDICT, inputs[i]))

        for i in range(self.device_num):
            msg_type, msg = self.pipe_parent_end[i].recv()
            if msg_type == ERROR:
                raise RuntimeError(f"Failed to call predict, exception occur: {msg}")
            assert msg_type == REPLY
            result.append(msg)
        return result

    def finalize(self):
        # finalize subprocess
        for i in range(self.device_num):
            self.pipe_parent_end[i].send((EXIT, ""))
        for i in range(self.device_num):
            self.process[i].join()


if __name__ == "__main__":
    mindir_path = "examples/small_diffusion_bs1.mindir"
    random = np.random.default_rng(1)
    sample = random.normal(size=(2, 4, 64, 64)).astype(np.float32)
    timestep = np.array([981], np.int32)
    encoder_hidden_states = random.normal(size=(2, 77, 64)).astype(np.float32)

    # data slice
    input_data_0 = [sample[0], timestep, encoder_hidden_states[0]]
    input_data_1 = [sample[1], timestep, encoder_hidden_states[1]]
    input_data_all = [input_data_0, input_data_1]

    predict_utils = ParallelPredictUtils(mindir_path, len(input_data_all))
    predict_utils.build_model()
    begin = time.time()
    predict_result = predict_utils.predict(input_data_all)
    print("Total predict time = ", time.time() - begin, flush=True)
    predict_utils.finalize()
    if len(sys.argv) > 1:
        np.save(sys.argv[1], np.concatenate([result[0] for result in predict_result]))
    print("=========== success ===========")
