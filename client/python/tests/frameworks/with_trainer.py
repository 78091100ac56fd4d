"""Hugging Face's Trainer with the dataset's samples. See jobs.py."""

from __future__ import annotations

from typing import Any

from jobs import AT, JOB, Model, dataset, record
from transformers import Trainer, TrainingArguments


class Recording(Trainer):  # type: ignore[misc]
    def training_step(self, model: Any, inputs: dict[str, Any], *more: Any, **options: Any) -> Any:
        step = self.state.global_step + 1
        steps = self.state.max_steps // JOB["epochs"]
        loss = super().training_step(model, inputs, *more, **options)
        record(step, (step - 1) // steps, inputs["number"], self.args.process_index)
        return loss


arguments = TrainingArguments(
    str(AT), num_train_epochs=JOB["epochs"], per_device_train_batch_size=JOB["loader_batch"], save_steps=JOB["save"], use_cpu=True,
    ddp_backend="gloo" if JOB["ranks"] > 1 else None, report_to=[], disable_tqdm=True, dataloader_num_workers=JOB["workers"],
    accelerator_config={"dispatch_batches": JOB["dispatch"]},
)
trainer = Recording(Model(), arguments, train_dataset=dataset().samples())
done = trainer.train(resume_from_checkpoint=JOB["resume"])
assert done.global_step == trainer.state.max_steps == JOB["steps"], (done.global_step, trainer.state.max_steps)
